"""Nouns of the domain as frozen dataclasses: devices, mounts, entries, ways to wipe. They compute, never wait."""
