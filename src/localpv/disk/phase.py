"""Where on the circle a disk is. Whoever writes `status.phase` asks here: discovery and cleaning write the same field,
and what the one decides the other must not undo.

As long as an order to clean stands, it alone counts, whatever else is seen. Without one, the look of discovery does.
"""

from __future__ import annotations

from dataclasses import dataclass

from localpv.api.kinds.localdisk import Cleaning, CleaningState, LocalDisk, Phase

_ORDERED = {
    CleaningState.WAITING.value: Phase.RELEASING,
    CleaningState.RUNNING.value: Phase.CLEANING,
    CleaningState.FAILED.value: Phase.CLEAN_FAILED,
    CleaningState.VERIFIED.value: Phase.RELEASING,  # until the order is taken back, and the volume with it
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What discovery saw of a disk."""

    eligible: bool
    missing: bool = False
    """Whether what was recorded is not there."""

    expected: bool = False
    """Whether something must be there even if no volume ever had it: a file system was mounted here."""

    used: bool = False
    managed: bool = True
    """Whether the configuration still covers the entry."""


def decide(disk: LocalDisk, cleaning: Cleaning | None, look: Look | None) -> Phase | None:
    """The phase of a disk with this cleaning; None when nobody looked and no order tells, so that it stays as it is."""
    if (order := disk.spec.clean) is not None:
        own = cleaning is not None and cleaning.volume_uid == order.volume_uid
        return _ORDERED.get(cleaning.state, Phase.RELEASING) if own and cleaning else Phase.RELEASING
    if look is None:
        return None
    if not look.managed:
        return Phase.UNAVAILABLE
    unclean = cleaning is not None and cleaning.state != CleaningState.VERIFIED
    if look.missing and (look.expected or unclean or disk.spec.volume is not None):
        return Phase.MISSING
    if disk.spec.volume is not None:
        return Phase.IN_USE if look.used else Phase.PUBLISHED
    return Phase.AVAILABLE if look.eligible else Phase.UNAVAILABLE
