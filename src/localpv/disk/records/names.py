"""What a LocalDisk is called."""

from __future__ import annotations

import hashlib
import re

LONGEST = 240
"""A name becomes the name of a file with an ending, and file names end at 255 bytes."""

LONGEST_ENTRY = 63
DIGITS = 8

_unfit = re.compile(r"[^a-z0-9]+")


def disk_name(node: str, storage_class: str, entry: str) -> str:
    """`NODE-ENTRY-HASH`: readable as far as the entry can be, and always the same for the same disk."""
    # Separators keep ("a", "bc") and ("ab", "c") apart; no name can contain a NUL.
    identity = "\0".join((node, storage_class, entry)).encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(identity).hexdigest()[:DIGITS]
    slug = _unfit.sub("-", entry.lower()).strip("-")[:LONGEST_ENTRY].rstrip("-")
    tail = f"-{slug}-{digest}" if slug else f"-{digest}"
    return node[: LONGEST - len(tail)].rstrip("-.") + tail
