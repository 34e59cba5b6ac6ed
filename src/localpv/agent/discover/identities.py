"""Whether what is there now is the disk that was recorded, and which records may be about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from localpv.agent.discover.entry import Place
from localpv.api.kinds.localdisk import DiskIdentity, DiskKind, LocalDisk
from localpv.disk import identity
from localpv.host.model.identity import Identity, Mismatch


def contradictions(recorded: DiskIdentity, now: Identity, *, kind: DiskKind | None) -> tuple[Mismatch, ...]:
    """What speaks against the disk being the one that was recorded; also that nothing speaks for it.

    Whoever has a device may make a new file system on it, so there the file system does not count.
    """
    return identity.read(recorded).mismatches(now, contents=kind is not DiskKind.BLOCK_DEVICE)


def recorded_in(record: LocalDisk) -> DiskIdentity | None:
    """The disk that a record is about: the one that a volume got, else the one that was found."""
    return record.spec.identity or record.status.identity


class Index:
    """Records by the fields of their disks' identities. To compare all disks with all takes too long."""

    def __init__(self) -> None:
        self._fields: dict[Place, tuple[_Field, ...]] = {}
        self._places: defaultdict[_Field, set[Place]] = defaultdict(set)

    def put(self, place: Place, record: LocalDisk | None) -> None:
        """Take over what the record of a place says now."""
        recorded = recorded_in(record) if record is not None else None
        before_it = [each.identity for each in record.status.earlier] if record is not None else []
        known = [recorded, *before_it] if recorded is not None else before_it
        fields = tuple(dict.fromkeys(field for each in known for field in _fields(each)))
        before = self._fields.get(place, ())
        if fields == before:
            return
        for field in before:
            self._places[field].discard(place)
            if not self._places[field]:
                del self._places[field]
        for field in fields:
            self._places[field].add(place)
        if fields:
            self._fields[place] = fields
        else:
            del self._fields[place]

    def alike(self, now: Identity, *, directory: bool) -> Iterator[Place]:
        """Records with a field in common with what was seen: nobody else's can be about the same disk.

        All directories of a file system share its device; which of them it is says the inode.
        """
        seen: set[Place] = set()
        for field in _fields(now):
            if not directory or field[0] == "inode":
                seen |= self._places.get(field, frozenset())
        return iter(sorted(seen))


_Field = tuple[str, str | int]
_FIELDS = ("major_minor", "serial", "wwn", "fs_uuid", "part_uuid", "inode")


def _fields(identity: DiskIdentity | Identity) -> tuple[_Field, ...]:
    one = ((name, getattr(identity, name)) for name in _FIELDS)
    return (*((name, value) for name, value in one if value), *(("by_id", name) for name in identity.by_id))
