"""Where on the circle a disk is, as its record tells it."""

from __future__ import annotations

import msgspec

from localpv.agent.discover import remains
from localpv.agent.discover.entry import Sighting
from localpv.agent.discover.probe import Facts
from localpv.agent.discover.rules import Verdict
from localpv.api.kinds.localdisk import EarlierDevice, LocalDisk, LocalDiskStatus, size_text
from localpv.disk import identity
from localpv.disk.phase import Look, decide
from localpv.host.model.identity import Identity


def seen(record: LocalDisk, verdict: Verdict, sighting: Sighting, facts: Facts) -> LocalDiskStatus:
    """The status of a disk whose entry is there."""
    status = record.status
    if not facts.hung and not facts.trouble and not _keeps_past(verdict):
        if not remains.taken(record) and not remains.unclean(record) and not remains.cleaned(record, facts.identity):
            status = _of_another(record, facts.identity)
        if not remains.unclean_other(record, facts.identity, sighting.kind):
            status = _with_facts(status, verdict, facts)
        if verdict.matched_by or not remains.taken(record):
            status = msgspec.structs.replace(status, matched_by=verdict.matched_by)
    look = Look(
        eligible=verdict.eligible,
        missing=verdict.missing,
        expected=verdict.reason == "WasMountPoint",
        used=bool(sighting.elsewhere) or (facts.device is not None and bool(facts.device.in_use_by)),
    )
    return _placed(record, status, look, verdict.reason, verdict.message)


def gone(record: LocalDisk, reason: str, message: str) -> LocalDiskStatus:
    """The status of a disk whose entry is not there."""
    return _placed(record, record.status, Look(eligible=False, missing=True, expected=True), reason, message)


def silent(record: LocalDisk, reason: str, message: str) -> LocalDiskStatus:
    """The status of a disk whose entry gives no answer."""
    return _placed(record, record.status, Look(eligible=False), reason, message)


def unmanaged(record: LocalDisk, reason: str, message: str) -> LocalDiskStatus:
    """The status of a disk that the configuration does not cover any more.

    A volume that nobody has claimed is taken back by the manager when its disk is Missing or Unavailable.
    """
    return _placed(record, record.status, Look(eligible=False, managed=False), reason, message)


def bound(record: LocalDisk) -> bool:
    """Whether a record is bound to its directory: its disk has a volume, or a cleaning to be made good."""
    return remains.taken(record) or remains.unclean(record)


def _of_another(record: LocalDisk, now: Identity | None) -> LocalDiskStatus:
    """The last cleaning was of another disk. What it may have left there is not forgotten."""
    status = record.status
    earlier = list(status.earlier)
    if remains.may_show(record) and status.identity is not None and status.cleaning is not None:
        earlier.append(EarlierDevice(identity=status.identity, cleaning=status.cleaning))
    back = remains.was_here(earlier, now)
    return msgspec.structs.replace(
        status,
        cleaning=back.cleaning if back is not None else None,
        earlier=tuple(each for each in earlier if each is not back),
    )


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


def _placed(record: LocalDisk, status: LocalDiskStatus, look: Look, reason: str, message: str) -> LocalDiskStatus:
    phase = decide(record, status.cleaning, look)
    assert phase is not None
    if (order := record.spec.clean) is not None:
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
    if (volume := record.spec.volume) is not None and look.eligible:
        reason = phase.value
        message = f"Volume {volume.name} is in use." if look.used else f"Volume {volume.name} offers it."
    return msgspec.structs.replace(status, eligible=look.eligible, phase=phase.value, reason=reason, message=message)
