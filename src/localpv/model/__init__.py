"""Nouns of the domain as frozen dataclasses: devices, mounts, entries of a folder, ways to wipe. They compute, never wait."""
