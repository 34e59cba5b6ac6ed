"""What is found on a disk that nobody has used through localpv yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from localpv.host.model.marks import Mark

SHOWN = 3
"""Names that are told; they go into a record that everybody reads."""

COUNTED = 1000
"""Beyond so many nobody counts on."""

LOST_AND_FOUND = "lost+found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Nothing, files, data without a name, or nobody can tell."""

    names: tuple[str, ...] = ()
    """The first few names in a directory or file system."""

    count: int = 0
    data: str = ""
    """What else is on a device, as the end of a sentence that begins with `it holds`."""

    unknown: str = ""
    """Why it cannot be told."""

    mark: Mark | None = None
    """What the file system of a tenant says of him at its top."""

    @property
    def blank(self) -> bool:
        return not (self.names or self.data or self.unknown)

    def __str__(self) -> str:
        if self.unknown:
            return f"whether it is empty cannot be told: {self.unknown}"
        if self.data:
            return f"it holds {self.data}"
        if not self.names:
            return "it is empty"
        # Names are whatever somebody called their files: nothing in them may look like more than a name.
        shown = ", ".join(name.encode("utf-8", "replace").decode().__repr__()[:60] for name in self.names)
        more = self.count - len(self.names)
        rest = f" and {'at least ' if self.count >= COUNTED else ''}{more} more" if more > 0 else ""
        return f"it holds {shown}{rest}"


BLANK = Contents()


def of_names(names: Iterable[str]) -> Contents:
    """Contents of a directory; the names are read as far as they are counted."""
    read = list(islice(names, COUNTED))
    return Contents(names=tuple(sorted(read)[:SHOWN]), count=len(read))
