"""Where on the circle a disk is, as its record tells it."""

from __future__ import annotations

import msgspec

from localpv.api.kinds.localdisk import CleaningState, LocalDisk, LocalDiskStatus, Phase, size_text
from localpv.lifecycle import identity
from localpv.lifecycle.discover import rules
from localpv.lifecycle.discover.facts import Facts
from localpv.lifecycle.discover.rules import Verdict
from localpv.lifecycle.discover.sighting import Sighting

_CLEANING = {
    CleaningState.WAITING.value: Phase.RELEASING,
    CleaningState.RUNNING.value: Phase.CLEANING,
    CleaningState.FAILED.value: Phase.CLEAN_FAILED,
    CleaningState.VERIFIED.value: Phase.CLEANING,
}


def seen(record: LocalDisk, verdict: Verdict, sighting: Sighting, facts: Facts) -> LocalDiskStatus:
    """The status of a disk whose entry is there."""
    status = record.status
    if not facts.hung and not facts.trouble and not _keeps_past(verdict):
        status = _with_facts(status, verdict, facts)
    used = bool(sighting.elsewhere) or (facts.device is not None and bool(facts.device.in_use_by))
    return _placed(record, status, verdict.eligible, verdict.reason, verdict.message, verdict.missing, used=used)


def gone(record: LocalDisk, reason: str, message: str, *, phase: Phase | None = Phase.MISSING) -> LocalDiskStatus:
    """The status of a disk whose entry is not there, or not ours to look at any more.

    A volume that nobody has claimed is taken back by the manager when its disk is Missing or Unavailable.
    """
    placed = _placed(record, record.status, False, reason, message, phase is Phase.MISSING)
    if phase is None or record.spec.clean is not None:
        return placed
    return msgspec.structs.replace(placed, phase=phase.value)


def worth_keeping(record: LocalDisk) -> bool:
    """Whether a record must outlive its entry: a volume has the disk, or it may hold what a volume left on it."""
    return rules.taken(record) or rules.unclean(record)


def _keeps_past(verdict: Verdict) -> bool:
    # The next look is compared with the kind that was there: the directory below a lost mount must not replace it.
    return verdict.missing


def _with_facts(status: LocalDiskStatus, verdict: Verdict, facts: Facts) -> LocalDiskStatus:
    return msgspec.structs.replace(
        status,
        kind=verdict.kind.value if verdict.kind else "",
        medium=facts.medium.value,
        capacity_bytes=facts.capacity_bytes,
        size=size_text(facts.capacity_bytes) if facts.capacity_bytes else "",
        identity=identity.written(facts.identity) if facts.identity else None,
    )


def _placed(
    record: LocalDisk,
    status: LocalDiskStatus,
    eligible: bool,
    reason: str,
    message: str,
    missing: bool,
    *,
    used: bool = False,
) -> LocalDiskStatus:
    if (order := record.spec.clean) is not None:
        cleaning = status.cleaning
        own = cleaning is not None and cleaning.volume_uid == order.volume_uid
        phase = _CLEANING.get(cleaning.state, Phase.RELEASING) if own and cleaning else Phase.RELEASING
        if status.phase == phase:
            # Who cleans knows better what to say about it.
            return msgspec.structs.replace(status, eligible=False)
        return msgspec.structs.replace(
            status,
            eligible=False,
            phase=phase.value,
            reason=phase.value,
            message=f"The disk is being cleaned for volume {order.volume_name}.",
        )
    if (volume := record.spec.volume) is not None:
        phase = Phase.MISSING if missing else Phase.IN_USE if used else Phase.PUBLISHED
        if eligible:
            reason = phase.value
            message = f"Volume {volume.name} is in use." if used else f"Volume {volume.name} offers it."
        return msgspec.structs.replace(status, eligible=eligible, phase=phase.value, reason=reason, message=message)
    phase = Phase.AVAILABLE if eligible else Phase.UNAVAILABLE
    if reason == "WasMountPoint" or (missing and rules.unclean(record)):
        phase = Phase.MISSING
    return msgspec.structs.replace(status, eligible=eligible, phase=phase.value, reason=reason, message=message)
