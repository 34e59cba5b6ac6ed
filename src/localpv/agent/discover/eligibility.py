"""Rules for disks that no volume has: may it be offered?

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

from localpv.agent.discover import remains
from localpv.agent.discover.candidate import Candidate, Finding
from localpv.api.kinds.localdisk import MOST_EARLIER, DiskKind, VolumeMode, size_text
from localpv.config import cleaners
from localpv.disk import labels
from localpv.host.folders import FileKind
from localpv.host.model.devices import DeviceKind

LEAST_BYTES = 1024 * 1024
"""Less has no room for a file system."""

_BOOT = re.compile(r"bios|boot|\b(efi|esp)\b", re.IGNORECASE)


def remembers_too_many(disk: Candidate) -> Finding | None:
    record, now = disk.record, disk.facts.identity
    if record is None or now is None or not remains.may_show(record) or remains.cleaned(record, now):
        return None
    if len(record.status.earlier) < MOST_EARLIER or remains.was_here(record.status.earlier, now) is not None:
        return None
    return Finding(
        "TooManyEarlier",
        f"{len(record.status.earlier) + 1} other devices were here, and their last cleanings may have left old blocks"
        f" on them. If they are gone for good, delete LocalDisk {record.metadata.name}.",
        missing=True,
    )


def not_cleaned(disk: Candidate) -> Finding | None:
    record = disk.record
    if disk.unclean is not None:
        return Finding(
            "NotCleaned",
            f"A cleaning of this disk as {disk.unclean.spec.path} did not end well, so data may be left on it; run"
            f" `localpv wipe {disk.sighting.entry.name}`, or wipe it there. When it was wiped otherwise, delete"
            f" LocalDisk {disk.unclean.metadata.name}.",
        )
    if record is None or not remains.unclean(record):
        return None
    if remains.unclean_other(record, disk.facts.identity, disk.sighting.kind):
        return Finding(
            "NotCleaned",
            "A cleaning of the disk that was here did not end well, and this is another disk; put that one back and"
            f" wipe it. If it is gone for good, delete LocalDisk {record.metadata.name}.",
        )
    return Finding(
        "NotCleaned",
        "A cleaning of this disk did not end well, so data may be left on it;"
        f" run `localpv wipe {record.metadata.name}`.",
    )


def used_before(disk: Candidate) -> Finding | None:
    mark = disk.facts.mark
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
        f" save what is needed from it, then run `localpv wipe {disk.sighting.entry.name}`.",
    )


def duplicate(disk: Candidate) -> Finding | None:
    if not disk.rival:
        return None
    return Finding(labels.DUPLICATE, f"It is the same disk as {disk.rival}, which comes first; remove one of the two.")


def twins(disk: Candidate) -> Finding | None:
    identity, contents = disk.facts.identity, disk.device is None
    names = identity.names(contents=contents) if identity is not None else set()
    if identity is None or not names or names - {twin.name for twin in identity.twins}:
        return None  # it has a name of its own, or none at all
    others = ", ".join(sorted({twin.device for twin in identity.twins}))
    return Finding(
        "SameNames",
        f"It goes by the same serial number or UUID as {others}: a copy, or another path to the same disk. After a"
        " restart nobody could tell them apart; give the copy names of its own, or set up multipath.",
    )


def unnamed(disk: Candidate) -> Finding | None:
    identity = disk.facts.identity
    if disk.device is None or identity is None or identity.same_device(identity, contents=False):
        return None
    return Finding(
        "NoIdentity",
        "It has no serial number, WWN or UUID, and this kernel keeps no disk sequence number (it is older than 5.15):"
        " another disk in its place would pass for it. Give it a serial number, or make a partition (GPT) on it.",
    )


def entry_twice(disk: Candidate) -> Finding | None:
    if not disk.sighting.twice:
        return None
    return Finding(
        "EntryTwice",
        f"{disk.sighting.twice} has an entry of the same name, and the class has one volume for each name; remove or"
        " rename one of the two.",
    )


def not_matched(disk: Candidate) -> Finding | None:
    if not disk.settings.from_local_storage or disk.device is None or disk.matched_by:
        return None
    return Finding(
        "NotMatched",
        f"udev does not say that a rule of a LocalStorage matched it for class {disk.settings.name}; if the link was"
        " made by hand, remove it.",
    )


def other_engine(disk: Candidate) -> Finding | None:
    """Each engine has records of its own, so neither would see that the other has given the disk to somebody."""
    if not disk.facts.foreign:
        return None
    other = disk.facts.foreign[0]
    whose = f"localpv up {other.engine}" if other.engine else "the cluster that this machine is a node of"
    return Finding(
        labels.OTHER_ENGINE,
        f"A LocalStorage of {whose} matches the device too ({other.rule}, class {other.storage_class}); change one of"
        " the two, so that only one engine of the machine has it.",
    )


def not_looked_at(disk: Candidate) -> Finding | None:
    wanted, matches = disk.filter.looked_with, disk.device.matches if disk.device is not None else ()
    if not wanted or any(match.rule == disk.matched_by and match.mark == wanted for match in matches):
        return None
    return Finding(
        "NotLookedAt",
        "Its LocalStorage has changed, and udev has not looked at the device since, so it may be one that is not meant"
        " any more; it is looked at again.",
    )


def directory_for_block(disk: Candidate) -> Finding | None:
    if disk.sighting.kind is DiskKind.BLOCK_DEVICE:
        return None
    if disk.settings.from_local_storage:
        return Finding("NotADevice", "It is a directory, and LocalStorages offer block devices only; remove it.")
    if disk.mode is not VolumeMode.BLOCK:
        return None
    return Finding(
        "NotADevice",
        "It is a directory, and the class offers raw devices (volumeMode Block); link a device here, or use a class"
        " with volumeMode Filesystem.",
    )


def root_directory(disk: Candidate) -> Finding | None:
    if not disk.sighting.root:
        return None
    return Finding("RootDirectory", "It is the root directory of this machine; remove it from here.")


def link_to_directory(disk: Candidate) -> Finding | None:
    if disk.sighting.entry.kind is not FileKind.DIRECTORY or not disk.sighting.entry.is_link:
        return None
    # A kubelet follows it anew at every mount, wherever it leads by then, and in a container it leads elsewhere than on
    # the host: what is cleaned and what was used could be two directories.
    return Finding(
        "LinkToDirectory",
        f"It is a link to {disk.sighting.entry.target}, a directory elsewhere, and nobody could tell that the same one"
        " is mounted for pods and cleaned after use; bind-mount that directory here instead.",
    )


def not_mounted(disk: Candidate) -> Finding | None:
    if not disk.settings.require_mount_point or disk.sighting.kind is not DiskKind.DIRECTORY:
        return None
    return Finding(
        "NotMounted",
        "Nothing is mounted here, and the class asks for mount points (requireMountPoint); mount a file system.",
    )


def mounted(disk: Candidate) -> Finding | None:
    if disk.device is None:
        return None
    places = disk.device.mounted_at or disk.sighting.elsewhere
    return Finding("Mounted", f"The device is mounted at {places[0]}; unmount it.") if places else None


def held(disk: Candidate) -> Finding | None:
    if disk.device is None or not disk.device.holders:
        return None
    holders = ", ".join(disk.device.holders)
    return Finding("Held", f"The device is part of {holders} (LVM, RAID, encryption or multipath); offer that instead.")


def swap(disk: Candidate) -> Finding | None:
    if disk.device is None:
        return None
    if disk.device.swap:
        return Finding("Swap", "The device is used as swap; take it out with swapoff and wipefs.")
    if any(found.type.startswith("swap") for found in disk.device.signatures):
        return Finding(
            "Swap", f"The device is made for swap; if nobody needs it, run `localpv wipe {disk.sighting.entry.name}`."
        )
    return None


def partitioned(disk: Candidate) -> Finding | None:
    device = disk.device
    if device is None:
        return None
    if device.partitions:
        return Finding("Partitioned", f"The disk has partitions ({', '.join(device.partitions)}); link those instead.")
    if any(found.usage == "partition-table" for found in device.signatures):
        return Finding("Partitioned", "The disk has a partition table; if nobody needs it, run `localpv wipe`.")
    return None


def boot_partition(disk: Candidate) -> Finding | None:
    device = disk.device
    if device is None:
        return None
    label = next((text for text in (device.part_label, device.fs_label) if _BOOT.search(text)), "")
    if not label:
        return None
    return Finding("BootPartition", f'Its label "{label}" says that a machine starts from it; link another device.')


def read_only(disk: Candidate) -> Finding | None:
    if disk.device is not None and (disk.device.read_only or disk.device.kind is DeviceKind.ROM):
        return Finding("ReadOnly", "The device cannot be written; take its write protection off (blockdev --setrw).")
    mount = disk.sighting.mount or disk.sighting.around
    if mount is not None and mount.read_only:
        return Finding("ReadOnly", "The file system is mounted read-only; mount it so that it can be written.")
    return None


def has_file_system(disk: Candidate) -> Finding | None:
    found = disk.device.file_system if disk.device else None
    if found is None:
        return None
    if disk.mode is VolumeMode.FILESYSTEM and found.type == disk.settings.fs_type:
        return None
    wanted = "raw devices" if disk.mode is VolumeMode.BLOCK else f"devices with {disk.settings.fs_type or 'nothing'}"
    return Finding(
        "HasFileSystem",
        f"There is a file system of type {found.type} on the device, and the class offers {wanted}; if nobody needs"
        f" what is in it, run `localpv wipe {disk.sighting.entry.name}`.",
    )


def has_signature(disk: Candidate) -> Finding | None:
    found = next((one for one in disk.device.signatures if one.usage != "filesystem"), None) if disk.device else None
    if found is None:
        return None
    return Finding(
        "HasSignature",
        f"The device holds a {found.type}; if nobody needs what is in it, run"
        f" `localpv wipe {disk.sighting.entry.name}`.",
    )


def in_use(disk: Candidate) -> Finding | None:
    if disk.device is None or disk.device.opens_exclusively is not False:
        return None
    return Finding(
        "InUse", "The device is open exclusively (O_EXCL) by another process; see which with `fuser -v` or `lsblk`."
    )


def not_blank(disk: Candidate) -> bool:
    """Whether the disk holds anything that was there before localpv, or nobody can tell."""
    contents = disk.facts.contents
    if contents is None:
        return True
    if contents.data and disk.record is not None and remains.cleaned(disk.record, disk.facts.identity):
        last = disk.record.status.cleaning
        # Else somebody has written it since, past localpv: the cleaning was verified to leave nothing.
        return last is None or not cleaners.may_leave_data(last.method)
    return not contents.blank


def not_erased(disk: Candidate) -> Finding | None:
    """Whatever adoptExisting says: it is a tenant's data. The manager asks what its own record says of it."""
    last = disk.left.status.cleaning if disk.left is not None else None
    if disk.left is None or last is None or disk.mode is not VolumeMode.BLOCK:
        return None
    own = disk.settings.cleaner(on_device=True, volume_mode=disk.mode).method
    of_choice = cleaners.may_leave_data(own) or not cleaners.may_leave_data(last.method)
    if of_choice and not disk.settings.shows_old_data(last.method):
        return None
    return Finding(
        labels.NOT_ERASED,
        f"It was last cleaned as {disk.left.spec.path} with {last.method[0]}, which may leave old blocks; as a raw"
        f" device it would show them to its next user. Run `localpv wipe {disk.sighting.entry.name}` first.",
    )


def not_empty(disk: Candidate) -> Finding | None:
    if disk.settings.adopt_existing or not not_blank(disk):
        return None
    return Finding(
        "NotEmpty",
        f"Only what is empty is offered, and {disk.facts.contents or 'nobody has looked into it'}; if nobody needs"
        f" that, run `localpv wipe {disk.sighting.entry.name}`. To offer what exists, set adoptExisting in the class.",
    )


def too_small(disk: Candidate) -> Finding | None:
    least, found = disk.filter.min_bytes, disk.facts.capacity_bytes
    if LEAST_BYTES <= found < least:
        return Finding("TooSmall", f"It has {size_text(found)}; minSize of its group is {size_text(least)}.")
    if found >= LEAST_BYTES:
        return None
    return Finding("TooSmall", f"It has {found} bytes; volumes begin at {LEAST_BYTES}.")


def too_large(disk: Candidate) -> Finding | None:
    most, found = disk.filter.max_bytes, disk.facts.capacity_bytes
    if not most or found <= most:
        return None
    return Finding("TooLarge", f"It has {size_text(found)}; maxSize of its group is {size_text(most)}.")


def other_medium(disk: Candidate) -> Finding | None:
    media = disk.filter.media
    if not media or disk.facts.medium in media:
        return None
    return Finding(
        "OtherMedium", f"It is {disk.facts.medium or 'of unknown medium'}; its group takes {', '.join(media)}."
    )


def count_reached(disk: Candidate) -> Finding | None:
    most = disk.filter.max_count
    if not most or disk.of_group < most:
        return None
    return Finding(
        "CountReached",
        f"Its group takes {most} devices of a node (maxDeviceCount), and has {disk.of_group}; raise it to offer more.",
    )


def settling(disk: Candidate) -> Finding | None:
    if not disk.settling or disk.sighting.kind is not DiskKind.DIRECTORY:
        return None
    return Finding(
        "Settling", "The directory is new; it is offered in a few seconds unless something is mounted on it by then."
    )


RULES: tuple[Callable[[Candidate], Finding | None], ...] = (
    remembers_too_many,
    not_cleaned,
    entry_twice,
    duplicate,  # before those that say how to free a disk: it may be somebody's
    other_engine,
    used_before,
    twins,
    unnamed,
    not_matched,
    not_looked_at,
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
