"""Whether a disk may be offered: a table of small rules, each with its word and its sentence.

The first rule that objects decides. A disk that a volume has already is only asked whether it still is the same one:
that it is mounted and has a file system by then is what it was published for.

A file system on a device is somebody's data. Where raw devices were announced every signature is refused; where file
systems were announced, an empty one of the type that the class itself names (`fsType`) is accepted, as made for it
beforehand, and any other is refused: a node would mount it as it is and show the next tenant what is in it.

Nobody knows whose data is on a disk that localpv sees for the first time, so only a blank one is offered, unless the
class says `adoptExisting`. One that was cleaned goes by its record: what the method of that cleaning leaves was judged
when it was verified.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localpv.agent.discover import identities
from localpv.agent.discover.entry import Sighting
from localpv.agent.discover.probe import Facts
from localpv.api.kinds.localdisk import CleaningState, DiskKind, LocalDisk, VolumeMode, size_text
from localpv.config import cleaners
from localpv.config.settings import ClassSettings, DeviceFilter, Folder
from localpv.disk import identity, labels
from localpv.host.folders import FileKind
from localpv.host.model.devices import BlockDevice, DeviceKind
from localpv.host.model.identity import Identity, way_out

LEAST_BYTES = 1024 * 1024
"""Less has no room for a file system."""

_NO_FILTER = DeviceFilter()
_BOOT = re.compile(r"bios|boot|\b(efi|esp)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known about one candidate."""

    settings: ClassSettings
    sighting: Sighting
    facts: Facts
    record: LocalDisk | None = None
    rival: str = ""
    """Another entry or volume that has the same disk, and the better right to it."""

    settling: bool = False
    """Whether the entry appeared only a moment ago."""

    left: LocalDisk | None = None
    """The record of another place by which the device was cleaned last, with a method that may leave old blocks."""

    of_group: int = 0
    """Devices of the same group of a LocalStorage that volumes have, or that were offered before."""

    @property
    def published(self) -> bool:
        return self.record is not None and taken(self.record)

    @property
    def mode(self) -> VolumeMode:
        return mode(folder(self.settings, self.sighting), self.sighting.kind)

    @property
    def device(self) -> BlockDevice | None:
        return self.facts.device

    @property
    def matched_by(self) -> str:
        return matched_by(self.settings, self.facts)

    @property
    def filter(self) -> DeviceFilter:
        return self.settings.device_filters.get(group_of(self.matched_by), _NO_FILTER)


@dataclass(frozen=True, slots=True)
class Finding:
    """Why not."""

    reason: str
    message: str
    missing: bool = False
    """Whether what was published is not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a disk may be offered; else why not and what to do."""

    eligible: bool
    reason: str
    message: str
    kind: DiskKind | None
    mode: VolumeMode
    missing: bool = False
    matched_by: str = ""


def matched_by(settings: ClassSettings, facts: Facts) -> str:
    """The rule of a LocalStorage that matched a device for a class; empty when none did."""
    matches = facts.device.matches if facts.device is not None else ()
    return next((match.rule for match in matches if match.storage_class == settings.name), "")


def group_of(rule: str) -> str:
    """The group of devices that a rule is one of: `default/fast nodes[0].devices[1]` of `...udevRules[0]` in it."""
    return rule.rpartition(".")[0]


def accepted_type(settings: ClassSettings, sighting: Sighting) -> str:
    """The type of file system that may be on a device before it is offered; empty for none."""
    return settings.fs_type if mode(folder(settings, sighting), sighting.kind) is VolumeMode.FILESYSTEM else ""


def judge(case: Case) -> Verdict:
    """What the rules say about a candidate."""
    rules = STILL_THERE if case.published else (*STILL_THERE, *MAY_BE_OFFERED)
    for rule in rules:
        if finding := rule(case):
            return Verdict(
                eligible=False,
                reason=finding.reason,
                message=finding.message,
                kind=case.sighting.kind,
                mode=case.mode,
                missing=finding.missing,
                matched_by=case.matched_by,
            )
    message = "It can be offered."
    if not case.published and not_blank(case):
        message = (
            f"It is offered as it is, though {case.facts.contents}: the class says adoptExisting, or leaves it out for"
            " localpv provisioner, which offers what it finds as the classic one does."
        )
    return Verdict(
        eligible=True,
        reason="Available",
        message=message,
        kind=case.sighting.kind,
        mode=case.mode,
        matched_by=case.matched_by,
    )


def taken(record: LocalDisk) -> bool:
    """Whether the disk belongs to a volume, or did and the order to clean it stands."""
    return record.spec.volume is not None or record.spec.clean is not None


def cleaned(record: LocalDisk, now: Identity | None) -> bool:
    """Whether the disk seen now is the one of the record, and its last cleaning was verified.

    A disk that was used has a volume in its record until then, so nobody has used it since.
    """
    cleaning, recorded = record.status.cleaning, record.status.identity
    if cleaning is None or cleaning.state != CleaningState.VERIFIED or recorded is None or now is None:
        return False
    return identity.read(recorded).same_device(now, contents=False)


def unclean(record: LocalDisk) -> bool:
    """Whether a cleaning of the disk was begun and never ended well."""
    cleaning = record.status.cleaning
    return cleaning is not None and cleaning.state != CleaningState.VERIFIED


def may_show(record: LocalDisk) -> bool:
    """Whether the last cleaning of a device was verified, and may have left old blocks that can be read from it."""
    cleaning = record.status.cleaning
    if cleaning is None or cleaning.state != CleaningState.VERIFIED or record.status.kind != DiskKind.BLOCK_DEVICE:
        return False
    return cleaners.may_leave_data(cleaning.method)


def folder(settings: ClassSettings, sighting: Sighting) -> Folder:
    """The discovery directory in which something was seen."""
    return next((each for each in settings.folders if Path(each.mount_dir) == sighting.folder), settings.folders[0])


def mode(said: ClassSettings | Folder, kind: DiskKind | None) -> VolumeMode:
    """As the class says for the directory; where it leaves it open, devices are offered as devices and directories as
    file systems."""
    if said.volume_mode in [*VolumeMode]:
        return VolumeMode(said.volume_mode)
    return VolumeMode.BLOCK if kind is DiskKind.BLOCK_DEVICE else VolumeMode.FILESYSTEM


# Is it there, and is it what it was?


def hung(case: Case) -> Finding | None:
    if not case.facts.hung:
        return None
    return Finding("Hung", f"The disk gives no answer: {case.facts.trouble}. Look at the kernel log for its errors.")


def other_file(case: Case) -> Finding | None:
    if case.sighting.entry.kind is not FileKind.OTHER:
        return None
    return Finding(
        "NotADirectoryNorDevice",
        "It is neither a directory nor a block device; move it out of the discovery directory.",
        missing=True,
    )


def dangling_link(case: Case) -> Finding | None:
    entry = case.sighting.entry
    if entry.kind is not FileKind.DANGLING_LINK:
        return None
    return Finding(
        "DanglingLink",
        f"The link leads to {entry.target}, which is not there, or not for this agent; attach the disk or remove the"
        " link. Links are followed to devices only: bind-mount a directory here.",
        True,
    )


def was_mount_point(case: Case) -> Finding | None:
    record = case.record
    if record is None or case.sighting.kind is not DiskKind.DIRECTORY:
        return None
    if record.spec.identity is not None:
        before = record.spec.identity.mount_id > 0
    else:
        before = record.status.kind == DiskKind.MOUNT_POINT
    if not before:
        return None
    return Finding(
        "WasMountPoint",
        "The file system that was mounted here is not mounted any more, and the directory below it is not the same"
        f" volume; mount it again, or, if the directory is meant, delete LocalDisk {record.metadata.name}.",
        missing=True,
    )


def unreadable(case: Case) -> Finding | None:
    if not case.facts.trouble:
        return None
    return Finding("Unreadable", f"It cannot be looked at: {case.facts.trouble}.")


def identity_changed(case: Case) -> Finding | None:
    record = case.record
    if record is None or record.spec.identity is None or not case.published:
        return None
    was_device = record.status.kind == DiskKind.BLOCK_DEVICE
    if record.status.kind and was_device is not (case.sighting.kind is DiskKind.BLOCK_DEVICE):
        return _changed(f"it was a {record.status.kind} and is a {case.sighting.kind}")
    if case.sighting.kind is DiskKind.MOUNT_POINT and not record.spec.identity.mount_id:
        return _changed("it was a plain directory and something is mounted over it now")
    if case.facts.identity is None:
        return None
    found = identities.contradictions(record.spec.identity, case.facts.identity, kind=case.sighting.kind)
    if any(one.of_earlier_version for one in found):
        return Finding(
            "IdentityChanged",
            f"Whether this is the disk that was published here cannot be told: {'; '.join(map(str, found))}."
            f" Nothing is cleaned or offered until then. If it is, {way_out(found)}.",
            missing=True,
        )
    return _changed("; ".join(map(str, found))) if found else None


def _changed(how: str) -> Finding:
    return Finding(
        "IdentityChanged",
        f"This is not the disk that was published here ({how}); put that one back."
        " Nothing is cleaned or offered until then.",
        missing=True,
    )


def retired(case: Case) -> Finding | None:
    """Also of what is published: a volume that nobody has claimed is withdrawn then, and its link goes after it."""
    if not case.filter.retired:
        return None
    storage = case.matched_by.partition(" ")[0]
    return Finding(
        "Retired",
        f"LocalStorage {storage}, or its group that has the device, is being removed. A volume in use stays until its"
        " claim is deleted; nothing new is offered.",
    )


STILL_THERE: tuple[Callable[[Case], Finding | None], ...] = (
    hung,
    other_file,
    dangling_link,
    was_mount_point,
    unreadable,
    identity_changed,
    retired,
)


# May it be offered?


def not_cleaned(case: Case) -> Finding | None:
    record = case.record
    if record is None or not unclean(record):
        return None
    return Finding(
        "NotCleaned",
        "A cleaning of this disk did not end well, so data may be left on it;"
        f" run `localpv wipe {record.metadata.name}`.",
    )


def used_before(case: Case) -> Finding | None:
    mark = case.facts.mark
    if mark is None:
        return None
    if not mark.uid and mark.entry:
        return Finding(
            "UsedBefore",
            f"The mark {mark.entry} in its directory cannot be read, so a pod may have had any device here that has no"
            " volume; see what the file says, save what is needed from the device, and remove the file.",
        )
    return Finding(
        "UsedBefore",
        f"A pod had it as volume {mark.volume}, it was not cleaned since, and nothing else is known of that volume;"
        f" save what is needed from it, then run `localpv wipe {case.sighting.entry.name}`.",
    )


def duplicate(case: Case) -> Finding | None:
    if not case.rival:
        return None
    return Finding("DuplicateDevice", f"It is the same disk as {case.rival}, which comes first; remove one of the two.")


def twins(case: Case) -> Finding | None:
    identity, contents = case.facts.identity, case.device is None
    names = identity.names(contents=contents) if identity is not None else set()
    if identity is None or not names or names - {twin.name for twin in identity.twins}:
        return None  # it has a name of its own, or none at all
    others = ", ".join(sorted({twin.device for twin in identity.twins}))
    return Finding(
        "SameNames",
        f"It goes by the same serial number or UUID as {others}: a copy, or another path to the same disk. After a"
        " restart nobody could tell them apart; give the copy names of its own, or set up multipath.",
    )


def unnamed(case: Case) -> Finding | None:
    identity = case.facts.identity
    if case.device is None or identity is None or identity.same_device(identity, contents=False):
        return None
    return Finding(
        "NoIdentity",
        "It has no serial number, WWN or UUID, and this kernel keeps no disk sequence number (it is older than 5.15):"
        " another disk in its place would pass for it. Give it a serial number, or make a partition (GPT) on it.",
    )


def entry_twice(case: Case) -> Finding | None:
    if not case.sighting.twice:
        return None
    return Finding(
        "EntryTwice",
        f"{case.sighting.twice} has an entry of the same name, and the class has one volume for each name; remove or"
        " rename one of the two.",
    )


def not_matched(case: Case) -> Finding | None:
    if not case.settings.from_local_storage or case.device is None or case.matched_by:
        return None
    return Finding(
        "NotMatched",
        f"udev does not say that a rule of a LocalStorage matched it for class {case.settings.name}; if the link was"
        " made by hand, remove it.",
    )


def directory_for_block(case: Case) -> Finding | None:
    if case.sighting.kind is DiskKind.BLOCK_DEVICE:
        return None
    if case.settings.from_local_storage:
        return Finding("NotADevice", "It is a directory, and LocalStorages offer block devices only; remove it.")
    if case.mode is not VolumeMode.BLOCK:
        return None
    return Finding(
        "NotADevice",
        "It is a directory, and the class offers raw devices (volumeMode Block); link a device here, or use a class"
        " with volumeMode Filesystem.",
    )


def root_directory(case: Case) -> Finding | None:
    if not case.sighting.root:
        return None
    return Finding("RootDirectory", "It is the root directory of this machine; remove it from here.")


def link_to_directory(case: Case) -> Finding | None:
    if case.sighting.entry.kind is not FileKind.DIRECTORY or not case.sighting.entry.is_link:
        return None
    # A kubelet follows it anew at every mount, wherever it leads by then, and in a container it leads elsewhere than on
    # the host: what is cleaned and what was used could be two directories.
    return Finding(
        "LinkToDirectory",
        f"It is a link to {case.sighting.entry.target}, a directory elsewhere, and nobody could tell that the same one"
        " is mounted for pods and cleaned after use; bind-mount that directory here instead.",
    )


def not_mounted(case: Case) -> Finding | None:
    if not case.settings.require_mount_point or case.sighting.kind is not DiskKind.DIRECTORY:
        return None
    return Finding(
        "NotMounted",
        "Nothing is mounted here, and the class asks for mount points (requireMountPoint); mount a file system.",
    )


def mounted(case: Case) -> Finding | None:
    if case.device is None:
        return None
    places = case.device.mounted_at or case.sighting.elsewhere
    return Finding("Mounted", f"The device is mounted at {places[0]}; unmount it.") if places else None


def held(case: Case) -> Finding | None:
    if case.device is None or not case.device.holders:
        return None
    holders = ", ".join(case.device.holders)
    return Finding("Held", f"The device is part of {holders} (LVM, RAID, encryption or multipath); offer that instead.")


def swap(case: Case) -> Finding | None:
    if case.device is None:
        return None
    if case.device.swap:
        return Finding("Swap", "The device is used as swap; take it out with swapoff and wipefs.")
    if any(found.type.startswith("swap") for found in case.device.signatures):
        return Finding(
            "Swap", f"The device is made for swap; if nobody needs it, run `localpv wipe {case.sighting.entry.name}`."
        )
    return None


def partitioned(case: Case) -> Finding | None:
    device = case.device
    if device is None:
        return None
    if device.partitions:
        return Finding("Partitioned", f"The disk has partitions ({', '.join(device.partitions)}); link those instead.")
    if any(found.usage == "partition-table" for found in device.signatures):
        return Finding("Partitioned", "The disk has a partition table; if nobody needs it, run `localpv wipe`.")
    return None


def boot_partition(case: Case) -> Finding | None:
    device = case.device
    if device is None:
        return None
    label = next((text for text in (device.part_label, device.fs_label) if _BOOT.search(text)), "")
    if not label:
        return None
    return Finding("BootPartition", f'Its label "{label}" says that a machine starts from it; link another device.')


def read_only(case: Case) -> Finding | None:
    if case.device is not None and (case.device.read_only or case.device.kind is DeviceKind.ROM):
        return Finding("ReadOnly", "The device cannot be written; take its write protection off (blockdev --setrw).")
    mount = case.sighting.mount or case.sighting.around
    if mount is not None and mount.read_only:
        return Finding("ReadOnly", "The file system is mounted read-only; mount it so that it can be written.")
    return None


def has_file_system(case: Case) -> Finding | None:
    found = case.device.file_system if case.device else None
    if found is None:
        return None
    if case.mode is VolumeMode.FILESYSTEM and found.type == case.settings.fs_type:
        return None
    wanted = "raw devices" if case.mode is VolumeMode.BLOCK else f"devices with {case.settings.fs_type or 'nothing'}"
    return Finding(
        "HasFileSystem",
        f"There is a file system of type {found.type} on the device, and the class offers {wanted}; if nobody needs"
        f" what is in it, run `localpv wipe {case.sighting.entry.name}`.",
    )


def has_signature(case: Case) -> Finding | None:
    found = next((one for one in case.device.signatures if one.usage != "filesystem"), None) if case.device else None
    if found is None:
        return None
    return Finding(
        "HasSignature",
        f"The device holds a {found.type}; if nobody needs what is in it, run"
        f" `localpv wipe {case.sighting.entry.name}`.",
    )


def in_use(case: Case) -> Finding | None:
    if case.device is None or case.device.opens_exclusively is not False:
        return None
    return Finding(
        "InUse", "The device is open exclusively (O_EXCL) by another process; see which with `fuser -v` or `lsblk`."
    )


def not_blank(case: Case) -> bool:
    """Whether the disk holds anything that was there before localpv, or nobody can tell."""
    contents = case.facts.contents
    if contents is None:
        return True
    if contents.data and case.record is not None and cleaned(case.record, case.facts.identity):
        last = case.record.status.cleaning
        # Else somebody has written it since, past localpv: the cleaning was verified to leave nothing.
        return last is None or not cleaners.may_leave_data(last.method)
    return not contents.blank


def not_erased(case: Case) -> Finding | None:
    """Whatever adoptExisting says: it is a tenant's data. The manager asks what its own record says of it."""
    last = case.left.status.cleaning if case.left is not None else None
    if case.left is None or last is None or case.mode is not VolumeMode.BLOCK:
        return None
    own = case.settings.cleaner(on_device=True, volume_mode=case.mode).method
    of_choice = cleaners.may_leave_data(own) or not cleaners.may_leave_data(last.method)
    if of_choice and not case.settings.shows_old_data(last.method):
        return None
    return Finding(
        labels.NOT_ERASED,
        f"It was last cleaned as {case.left.spec.path} with {last.method[0]}, which may leave old blocks; as a raw"
        f" device it would show them to its next user. Run `localpv wipe {case.sighting.entry.name}` first.",
    )


def not_empty(case: Case) -> Finding | None:
    if case.settings.adopt_existing or not not_blank(case):
        return None
    return Finding(
        "NotEmpty",
        f"Only what is empty is offered, and {case.facts.contents or 'nobody has looked into it'}; if nobody needs"
        f" that, run `localpv wipe {case.sighting.entry.name}`. To offer what exists, set adoptExisting in the class.",
    )


def too_small(case: Case) -> Finding | None:
    least, found = case.filter.min_bytes, case.facts.capacity_bytes
    if LEAST_BYTES <= found < least:
        return Finding("TooSmall", f"It has {size_text(found)}; minSize of its group is {size_text(least)}.")
    if found >= LEAST_BYTES:
        return None
    return Finding("TooSmall", f"It has {found} bytes; volumes begin at {LEAST_BYTES}.")


def too_large(case: Case) -> Finding | None:
    most, found = case.filter.max_bytes, case.facts.capacity_bytes
    if not most or found <= most:
        return None
    return Finding("TooLarge", f"It has {size_text(found)}; maxSize of its group is {size_text(most)}.")


def other_medium(case: Case) -> Finding | None:
    media = case.filter.media
    if not media or case.facts.medium in media:
        return None
    return Finding(
        "OtherMedium", f"It is {case.facts.medium or 'of unknown medium'}; its group takes {', '.join(media)}."
    )


def count_reached(case: Case) -> Finding | None:
    most = case.filter.max_count
    if not most or case.of_group < most:
        return None
    return Finding(
        "CountReached",
        f"Its group takes {most} devices of a node (maxDeviceCount), and has {case.of_group}; raise it to offer more.",
    )


def settling(case: Case) -> Finding | None:
    if not case.settling or case.sighting.kind is not DiskKind.DIRECTORY:
        return None
    return Finding(
        "Settling", "The directory is new; it is offered in a few seconds unless something is mounted on it by then."
    )


MAY_BE_OFFERED: tuple[Callable[[Case], Finding | None], ...] = (
    not_cleaned,
    used_before,
    entry_twice,
    duplicate,  # before those that say how to free a disk: it may be somebody's
    twins,
    unnamed,
    not_matched,
    directory_for_block,
    root_directory,
    link_to_directory,
    not_mounted,
    mounted,
    held,
    swap,
    partitioned,
    boot_partition,
    read_only,
    has_file_system,
    has_signature,
    in_use,
    not_erased,
    not_empty,
    too_small,
    too_large,
    other_medium,
    settling,
    count_reached,  # last: only what could be offered counts
)
