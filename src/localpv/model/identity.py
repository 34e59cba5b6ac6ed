"""Which disk is it? What can be read about a disk, and whether two readings are of the same one.

Nothing is ever wiped unless the disk found now is the one that was recorded, so a contradiction always counts and a
gap never does: udev may be missing on one day and there on the next.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One field in which two readings contradict each other."""

    field: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.field} was {self.was}, is {self.now}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells a disk from every other, as far as it can be read; empty means unknown."""

    by_id: tuple[str, ...] = ()
    """Names that last: those below /dev/disk/by-id, the UUID of a mapped device, the file behind a loop device."""

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

    def mismatches(self, now: Identity, *, contents: bool = True) -> tuple[Mismatch, ...]:
        """Every contradiction between this recorded identity and the one read now.

        `contents=False` leaves out the UUID of the file system: who has a raw device may have made a new one on it,
        and so may a wiping that was cut short.
        """
        found = []
        for field in ("wwn", "serial", "part_uuid", "size_bytes", "model", *(("fs_uuid",) if contents else ())):
            was, is_now = getattr(self, field), getattr(now, field)
            if was and is_now and was != is_now:
                found.append(Mismatch(field=field, was=str(was), now=str(is_now)))
        if self.by_id and now.by_id and not set(self.by_id) & set(now.by_id):
            found.append(Mismatch(field="by_id", was=" ".join(self.by_id), now=" ".join(now.by_id)))
        # Numbers of devices are given out anew at every start, so they count only where nothing lasting is known.
        numbers_differ = self.major_minor and now.major_minor and self.major_minor != now.major_minor
        if numbers_differ and not self._shares_a_lasting_name(now, contents=contents):
            found.append(Mismatch(field="major_minor", was=self.major_minor, now=now.major_minor))
        return tuple(found)

    def same_device(self, now: Identity, *, contents: bool = True) -> bool:
        """Whether nothing speaks against both being the same disk, and at least one thing speaks for it."""
        return not self.mismatches(now, contents=contents) and (
            self._shares_a_lasting_name(now, contents=contents)
            or bool(self.major_minor and self.major_minor == now.major_minor)
        )

    def _shares_a_lasting_name(self, now: Identity, *, contents: bool) -> bool:
        fields = ("wwn", "serial", "part_uuid", *(("fs_uuid",) if contents else ()))
        return any(getattr(self, field) and getattr(self, field) == getattr(now, field) for field in fields) or bool(
            set(self.by_id) & set(now.by_id)
        )
