"""What there is to say about a disk or a volume, in plain words. Computes, asks nobody."""

from __future__ import annotations

from typing import TypeGuard

from localpv.api import volume_affinity, well_known
from localpv.api.kinds.localdisk import Cleaning, CleaningState, DiskIdentity, LocalDisk, Phase, size_text
from localpv.api.kinds.volumes import PersistentVolume
from localpv.cli import tables
from localpv.disk import labels


def short_name(disk: LocalDisk) -> str:
    """NODE/ENTRY, as people say it."""
    return tables.shown(f"{disk.spec.node_name}/{disk.spec.entry}")


def size(disk: LocalDisk) -> str:
    return disk.status.size or (size_text(disk.status.capacity_bytes) if disk.status.capacity_bytes else "")


def what(disk: LocalDisk) -> str:
    """BlockDevice, 931.5Gi, SSD, Samsung SSD 980."""
    status = disk.status
    model = status.identity.model if status.identity else ""
    return ", ".join(filter(None, (status.kind or "not seen yet", size(disk), status.medium, model)))


def identity(found: DiskIdentity | None) -> str:
    """Everything that tells this disk from others."""
    if found is None:
        return "not known"
    parts = (
        f"wwn {found.wwn}" if found.wwn else "",
        f"serial {found.serial}" if found.serial else "",
        f"partition {found.part_uuid}" if found.part_uuid else "",
        f"file system {found.fs_uuid}" if found.fs_uuid else "",
        f"inode {found.inode} of file system {found.filesystem_id}" if found.inode else "",
        f"from byte {found.offset_bytes}" if found.offset_bytes else "",
        f"device {found.major_minor}" if found.major_minor else "",
        *found.by_id,
    )
    return ", ".join(filter(None, parts)) or "nothing that lasts: it is known by its path only"


def progress(cleaning: Cleaning) -> str:
    """`45 %, 412Gi of 931.5Gi`, as far as it can be told."""
    if cleaning.bytes_total:
        percent = 100 * cleaning.bytes_done // cleaning.bytes_total
        return f"{percent} %, {size_text(cleaning.bytes_done)} of {size_text(cleaning.bytes_total)}"
    if cleaning.entries_done:
        return f"{cleaning.entries_done:,} entries removed"
    return size_text(cleaning.bytes_done) if cleaning.bytes_done else ""


def state(cleaning: Cleaning) -> str:
    """How far a cleaning is, as part of a sentence."""
    tries = f", attempt {cleaning.attempt}" if cleaning.attempt > 1 else ""
    match cleaning.state:
        case CleaningState.RUNNING:
            return ", ".join(filter(None, ("being wiped", cleaning.step, progress(cleaning)))) + tries
        case CleaningState.WAITING:
            return f"waits to be wiped: {sentence(cleaning.error) or cleaning.reason or 'others are first'}"
        case CleaningState.FAILED:
            again = f"; next attempt {clock(cleaning.next_attempt_at)}" if cleaning.next_attempt_at else ""
            return f"wiping failed{tries}: {sentence(cleaning.error) or cleaning.reason or 'no reason given'}{again}"
        case CleaningState.VERIFIED:
            return f"wiped and verified{' ' + clock(cleaning.finished_at) if cleaning.finished_at else ''}"
    return cleaning.state


def current(disk: LocalDisk) -> Cleaning | None:
    """The cleaning that the present order is about, not one that ended long ago."""
    order, cleaning = disk.spec.clean, disk.status.cleaning
    return cleaning if order and cleaning and cleaning.volume_uid == order.volume_uid else None


def cleaning(disk: LocalDisk) -> str:
    """The order and the state of cleaning, as explain shows them."""
    order, last = disk.spec.clean, disk.status.cleaning
    if order is None:
        return f"none ordered; the last one: {state(last)}" if last else "none ordered"
    method = f" with {' '.join(order.method)}" if order.method else ""
    when = f" {clock(order.requested_at)}" if order.requested_at else ""
    now = current(disk)
    return f"ordered{when} for {order.volume_name}{method}: {state(now) if now else 'the agent has not begun'}"


def trouble(disk: LocalDisk) -> tuple[str, str]:
    """Why a disk is not where it should be: one word and one sentence; the manager's word counts after the agent's."""
    status = disk.status
    if status.phase in (Phase.UNAVAILABLE, Phase.MISSING, Phase.CLEAN_FAILED) or status.eligible is False:
        return status.reason, status.message
    for condition in status.conditions:
        if condition.status == "False" and condition.type == "Offered":
            return condition.reason, condition.message
    return "", ""


def caution(disk: LocalDisk) -> str:
    """What users of the disk must know, though it is offered."""
    return next((each.message for each in disk.status.conditions if each.type == "DataReadable"), "")


def risk(disk: LocalDisk) -> str:
    """What users of its volume should know; empty when there is none."""
    if disk.spec.volume is None:
        return ""
    return f"its pod runs on node {disk.spec.node_name} only, and the data is as safe as this one disk"


def verdict(disk: LocalDisk, known: PersistentVolume | None = None) -> str:
    """Whether the disk is offered, as the end of a sentence that begins with its name.

    `known` is its volume where that can be read: the agent that wrote the phase knows nothing of claims.
    """
    reason, _ = trouble(disk)
    because = f": {reason}" if reason else ""
    volume = disk.spec.volume.name if disk.spec.volume else ""
    match disk.status.phase:
        case Phase.AVAILABLE if reason:
            return f"is fit to be offered, but is not{because}"
        case Phase.AVAILABLE:
            return "is fit to be offered; its volume is about to be created"
        case Phase.PUBLISHED if is_taken(known):
            taken = "belongs to" if known.status.phase == "Bound" else "is not offered: it was released by"
            return f"{taken} claim {claim_of(known)} as volume {volume}" + (
                f"; there is a problem{because}" if reason else ""
            )
        case Phase.PUBLISHED:
            return f"is offered as volume {volume}" + (f", but there is a problem{because}" if reason else "")
        case Phase.IN_USE:
            return f"is in use as volume {volume}"
        case Phase.RELEASING if disk.spec.clean:
            return "is released and waits to be wiped"
        case Phase.RELEASING:
            return f"is released by its claim and still belongs to volume {volume}"
        case Phase.CLEANING:
            return "is being wiped and will be offered again"
        case Phase.CLEAN_FAILED:
            return f"is not offered, because wiping it failed{because}"
        case Phase.MISSING:
            return f"is not there{because}"
        case "":
            return "has not been looked at by the agent of its node yet"
    return f"is not offered{because}"


def is_taken(volume: PersistentVolume | None) -> TypeGuard[PersistentVolume]:
    """Whether a claim has the volume, or had it and the volume was not cleaned away."""
    return volume is not None and volume.status.phase in ("Bound", "Released", "Failed") and bool(claim_of(volume))


def reason(disk: LocalDisk) -> str:
    """Why the disk is in its phase, where the phase alone does not say it."""
    said = disk.status.reason
    return (said if said != disk.status.phase else "") or trouble(disk)[0]


def hint(disk: LocalDisk) -> str:
    """What a person can do now; empty when nothing needs to be done."""
    reason, _ = trouble(disk)
    name = disk.metadata.name
    if reason in ("NotCleaned", "UsedBefore", labels.NOT_ERASED):
        return f"wipe it when its data is no longer needed: localpv wipe {name}"
    match disk.status.phase:
        case Phase.CLEAN_FAILED:
            return f"the agent tries again by itself; another way: localpv wipe {name} --method METHOD"
        case "":
            return f"see that the agent on node {disk.spec.node_name} runs"
        case Phase.AVAILABLE if not reason:
            return "see that the manager runs when this lasts for more than a moment"
    return ""


def is_ours(volume: PersistentVolume) -> bool:
    """Whether localpv, or the provisioner before it, made this volume."""
    meta = volume.metadata
    return labels.NODE in meta.labels or meta.annotations.get(well_known.PROVISIONED_BY, "").startswith(
        labels.PROVISIONER
    )


def node_of(volume: PersistentVolume) -> str:
    """The node that has the volume, by its affinity; by its label when that says nothing."""
    return ",".join(volume_affinity.of(volume).mentioned(well_known.HOSTNAME)) or volume.metadata.labels.get(
        labels.NODE, ""
    )


def claim_of(volume: PersistentVolume) -> str:
    claim = volume.spec.claim_ref
    return f"{claim.namespace}/{claim.name}" if claim else ""


def policy_of(volume: PersistentVolume) -> str:
    """What becomes of the volume when its claim is gone: Delete, Retain or Recycle."""
    return volume.metadata.annotations.get(labels.RECLAIM) or volume.spec.persistent_volume_reclaim_policy


def next_step(volume: PersistentVolume, disk: LocalDisk | None) -> str:
    """What happens with a volume next, and on what it depends."""
    policy = policy_of(volume)
    wiping = current(disk) if disk else None
    if wiping is not None and wiping.state == CleaningState.VERIFIED and policy == "Retain":
        return f"{state(wiping)}; the disk is offered again once the volume is deleted"
    if wiping is not None:
        done = "the volume is offered again" if policy == "Recycle" else "the volume goes and the disk is offered again"
        return f"{state(wiping)}; {done} now" if wiping.state == CleaningState.VERIFIED else state(wiping)
    match volume.status.phase:
        case "Available" if volume.spec.claim_ref:
            return f"is kept for claim {claim_of(volume)}"
        case "Bound":
            after = "is kept with its data" if policy == "Retain" else "is wiped and offered again"
            return f"in use; when claim {claim_of(volume)} is deleted it {after}"
        case "Released" if policy == "Retain":
            return f"is kept with its data; to destroy that: localpv wipe {disk.metadata.name if disk else 'DISK'}"
        case "Released" if disk is not None and disk.spec.clean is not None:
            return "will be wiped: the agent has the order"
        case "Released":
            return "will be wiped: the manager is to order it"
        case "Failed":
            return f"needs a person: {volume.status.message or volume.status.reason or 'see its events'}"
    return "is being deleted" if volume.metadata.deleting else "waits for a claim"


def sentence(text: str) -> str:
    """A sentence as part of another one, on one line."""
    return tables.shown(" ".join(text.split())).rstrip(".")


def clock(moment: str | None) -> str:
    """A moment in words short enough for a line: `at 14:03:22Z`, with the day when it is another one."""
    from datetime import UTC, datetime

    from localpv.api.kinds.meta import read_time

    if not moment:
        return ""
    when = read_time(moment).astimezone(UTC)
    today = datetime.now(UTC).date() == when.date()
    return f"at {when:%H:%M:%SZ}" if today else f"at {when:%Y-%m-%d %H:%M:%SZ}"
