"""Which disk is it? What can be read about a disk, and whether two readings are of the same one.

Nothing is ever wiped unless the disk found now is the one that was recorded. So a name that lasts and differs is a
contradiction which nothing outvotes. A gap is none: udev may be missing on one day and there on the next. Where the two
readings have no lasting name in common, only the kernel itself can tell, and only until the machine restarts: the same
boot, the same disk sequence number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

_NOT_LASTING = ("dm-name-", "md-name-", "lvm-pv-uuid-", "loop-inode-", "loop-device-")
"""Names below by-id that others can have next: people give the first two, whoever has the volume writes the third, and
the last two, of older records, name a number that is given out anew at every start."""

_FAMILIES = ("dm-uuid-", "md-uuid-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.", *(f"scsi-{kind}" for kind in "01238S"))
"""Sorts of names below by-id of which a disk has one, or some that agree; else it is what comes before the dash."""

_UNIQUE = ("dm-uuid-", "md-uuid-", "nvme-eui.", "nvme-uuid.", "wwn", "scsi-3")
"""Those that are made so that no two devices share them. Serial numbers are not: some makers print one on all."""


_NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One field in which two readings contradict each other."""

    field: str
    was: str
    now: str

    def __str__(self) -> str:
        if self.field == "twins":
            return f"{self.now} goes by the same names, so nobody can tell which of them was recorded"
        if self.of_earlier_version:
            return "an earlier version recorded it by no lasting name, so nothing tells whether it is the same"
        said = f"{self.field} was {self.was}, is {self.now}"
        if self.field in ("boot_id", "disk_sequence"):
            return f"it has no lasting name by which it was recorded, and {said}"
        return said

    @property
    def of_earlier_version(self) -> bool:
        """Whether it says only that too little was written down once."""
        return self.field == "boot_id" and self.was == _NOT_RECORDED


def way_out(found: Iterable[Mismatch]) -> str:
    """What a person can do about a disk that is not taken for the recorded one."""
    if any(one.of_earlier_version for one in found):
        return (
            "save what is needed from it and wipe it by hand (`blkdiscard -z`, or dd); delete its claim and its volume,"
            " let that go with `localpv migrate --release-finalizers VOLUME`, and delete its LocalDisk, to find it anew"
        )
    return "put the right disk back, or remove the record if the disk was replaced on purpose"


class Twin(NamedTuple):
    """A device that goes by the name of another one."""

    name: str
    """As `Identity.names` has it."""

    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells a disk from every other, as far as it can be read; empty means unknown."""

    by_id: tuple[str, ...] = ()
    """Names below /dev/disk/by-id, and the UUID of a mapped device."""

    wwn: str = ""
    serial: str = ""
    """Serial number; that of a partition ends in -partN, for all partitions of a disk share the disk's own."""

    part_uuid: str = ""
    fs_uuid: str = ""
    major_minor: str = ""
    size_bytes: int = 0
    model: str = ""
    mount_id: int = 0
    """Number of the mount, of a mount point. It changes with every mount, so it is told but not compared."""

    filesystem_id: str = ""
    """File system that a plain directory, or the file behind a loop device, lies in, by a name that lasts."""

    inode: int = 0
    inode_generation: int = 0
    """Generation of the inode: a file system gives the number of what was deleted to the next file."""

    offset_bytes: int = 0
    """Where a loop device begins in its file, or a partition on its disk."""

    size_limit_bytes: int = 0
    boot_id: str = ""
    disk_sequence: int = 0
    """The kernel's count of disks at the time this one came (diskseq); it begins anew with each boot."""

    twins: tuple[Twin, ...] = ()
    """Lasting names by which other devices go as well at this moment: copies, other paths to the same disk, or a serial
    number that a maker printed on all. A name that two devices have is none. Only read, never recorded."""

    def of_directory(self, own: Identity) -> Identity:
        """The identity of a directory in the file system that this is the identity of."""
        return replace(
            self,
            filesystem_id=own.filesystem_id,
            inode=own.inode,
            inode_generation=own.inode_generation,
            offset_bytes=0,
            size_limit_bytes=0,
        )

    def same_file(self, now: Identity) -> bool:
        """Whether both are of the same directory, or of the same file behind a loop device."""
        mine, theirs = (self.inode, self.filesystem_id), (now.inode, now.filesystem_id)
        generations = {self.inode_generation, now.inode_generation} - {0}
        return bool(self.inode and self.filesystem_id) and mine == theirs and len(generations) < 2

    def mismatches(self, now: Identity, *, contents: bool = True) -> tuple[Mismatch, ...]:
        """All that speaks against this recorded identity and the one read now being of the same disk.

        `contents=False` leaves out the UUID of the file system: who has a raw device may have made a new one on it,
        and so may a wiping that was cut short.
        """
        found = list(self._contradictions(now, contents=contents))
        if self._has_no_device and now._has_no_device:
            # A file system without a device (tmpfs, ZFS) has another number after each start, and some change their
            # size with what is in them. Mostly nothing lasting can be read about it: its place alone tells which it is.
            if self.boot_id and self.boot_id == now.boot_id and self.major_minor != now.major_minor:
                found.append(Mismatch(field="major_minor", was=self.major_minor, now=now.major_minor))
            return tuple(found)
        if contents and self._is_place_of_earlier_version:
            # It could not open the device, and took the room of the file system for its size.
            for name in ("major_minor", *(("mount_id",) if self.mount_id else ())):
                if getattr(self, name) != getattr(now, name):
                    return (*found, self._not_in_place(now))
            return tuple(found)
        kept = self._stayed_in_place(now)
        if self.size_bytes and now.size_bytes and not self._fits_size(now, kept=kept, contents=contents):
            found.append(Mismatch(field="size_bytes", was=str(self.size_bytes), now=str(now.size_bytes)))
        if found or kept or self._common(now, contents=contents):
            return tuple(found)
        if shared := self.names(contents=contents) & {twin.name for twin in now.twins}:
            others = sorted({twin.device for twin in now.twins if twin.name in shared})
            return (Mismatch(field="twins", was="", now=", ".join(others)),)
        return (self._not_in_place(now),)

    def same_device(self, now: Identity, *, contents: bool = True) -> bool:
        """Whether nothing speaks against both being the same disk, and something speaks for it."""
        return not self.mismatches(now, contents=contents)

    def names(self, *, contents: bool) -> set[str]:
        """All names that last, each with its sort: `serial S1`."""
        fields = ("wwn", "serial", "part_uuid", *(("fs_uuid",) if contents else ()))
        found = {f"{field} {getattr(self, field)}" for field in fields if getattr(self, field)}
        if self.inode and self.filesystem_id:
            part = f"{self.filesystem_id} {self.inode} {self.offset_bytes} {self.size_limit_bytes}"
            found.add(f"inode {part}")
        for name in self.by_id:
            if not name.startswith(_NOT_LASTING):
                found.add(f"{_family(name)} {name}")
        return found

    def alike(self, other: Identity) -> bool:
        """Whether nothing that lasts tells two devices of one moment apart, whatever is written on them."""
        shared = self.names(contents=False) & other.names(contents=False)
        return bool(shared) and not any(True for _ in self._contradictions(other, contents=False))

    def _contradictions(self, now: Identity, *, contents: bool) -> Iterator[Mismatch]:
        fields = ["wwn", "serial", "part_uuid", "model"]
        if contents:
            fields.append("fs_uuid")
        if self.inode and now.inode:
            fields += ["filesystem_id", "inode"]
            for name in ("offset_bytes", "size_limit_bytes"):  # 0 says something here: the file from its beginning
                if getattr(self, name) != getattr(now, name):
                    yield Mismatch(field=name, was=str(getattr(self, name)), now=str(getattr(now, name)))
            fields.append("inode_generation")
        else:
            fields.append("offset_bytes")
        for name in fields:
            was, is_now = getattr(self, name), getattr(now, name)
            if was and is_now and was != is_now:
                yield Mismatch(field=name, was=str(was), now=str(is_now))
        before, after = _by_family(self.by_id), _by_family(now.by_id)
        for family in sorted(before.keys() & after.keys()):
            if before[family].isdisjoint(after[family]):
                was, is_now = (" ".join(sorted(names[family])) for names in (before, after))
                yield Mismatch(field="by_id", was=was, now=is_now)

    def _common(self, now: Identity, *, contents: bool) -> set[str]:
        """Sorts of lasting names that both have, and nobody else."""
        found = self.names(contents=contents) & now.names(contents=contents) - {twin.name for twin in now.twins}
        return {name.partition(" ")[0] for name in found}

    @property
    def _has_no_device(self) -> bool:
        return self.major_minor.startswith("0:")

    @property
    def _is_place_of_earlier_version(self) -> bool:
        """Whether a directory was recorded by the number of its file system and nothing else. Nothing but its place
        tells which it is, and of a mount point that it is still the same mount."""
        known = Identity(major_minor=self.major_minor, size_bytes=self.size_bytes, mount_id=self.mount_id)
        return bool(self.major_minor) and self == known

    def _stayed_in_place(self, now: Identity) -> bool:
        """Whether the kernel has had the disk all the time: it counts those that come."""
        return (
            bool(self.boot_id and self.disk_sequence and self.major_minor)
            and (self.boot_id, self.disk_sequence, self.major_minor)
            == (now.boot_id, now.disk_sequence, now.major_minor)
            and self.offset_bytes == now.offset_bytes
        )

    def _not_in_place(self, now: Identity) -> Mismatch:
        for name in ("boot_id", "disk_sequence", "major_minor"):
            was, is_now = getattr(self, name), getattr(now, name)
            if not was or was != is_now:
                return Mismatch(field=name, was=str(was or _NOT_RECORDED), now=str(is_now or "not known"))
        return Mismatch(field="offset_bytes", was=str(self.offset_bytes), now=str(now.offset_bytes))

    def _fits_size(self, now: Identity, *, kept: bool, contents: bool) -> bool:
        # What was cut off may hold the old tenant's data, and a shared serial number says nothing of a larger disk.
        if self.size_bytes >= now.size_bytes:
            return self.size_bytes == now.size_bytes
        unique = {"part_uuid", "fs_uuid", "inode", *_UNIQUE}
        if self.wwn.startswith("nvme."):  # made of the serial number and the model
            unique.discard("wwn")
        return kept or not unique.isdisjoint(self._common(now, contents=contents))


def _family(name: str) -> str:
    return next((family for family in _FAMILIES if name.startswith(family)), name.partition("-")[0])


def _by_family(names: tuple[str, ...]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        if not name.startswith(_NOT_LASTING):
            found[_family(name)].add(name)
    return found
