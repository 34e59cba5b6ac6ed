"""Which of several entries that lead to the same disk is the one that counts.

Whoever has the disk in a volume comes first, then who was told that it is offered, then the first by name: so a link
that is added later never takes a disk from one that is on its way to a tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from localpv.agent.discover import remains
from localpv.agent.discover.entry import Place, Sighting
from localpv.agent.discover.identities import Index, recorded_in
from localpv.agent.discover.inventory import Inventory
from localpv.agent.discover.probe import Facts
from localpv.api.kinds.localdisk import DiskKind, LocalDisk
from localpv.config.settings import group_of
from localpv.disk import identity
from localpv.host.model.devices import BlockDevice

_NOT_OFFERED = 2


def stronger(place: Place, *, inventory: Inventory, records: Mapping[Place, LocalDisk], index: Index) -> str:
    """Who else has this disk with a better right, in words; empty when nobody does."""
    own, facts = inventory.sightings.get(place), inventory.facts.get(place)
    if own is None or not own.target:
        return ""
    for other in _others(place, own, facts, inventory):
        if _right(other, inventory, records) < _right(place, inventory, records):
            return f"entry {other.entry} of class {other.storage_class}"
    for other in index.alike(facts.identity, directory=_is_directory(own)) if facts and facts.identity else ():
        record = records[other]
        # Its entry is gone or leads elsewhere, but a volume still has its data on the disk, or is about to get it.
        promised = remains.taken(record) or record.status.eligible
        if other != place and promised and _is_disk_of(record, own, facts) and not _has_own(other, record, inventory):
            volume = f" (volume {record.spec.volume.name})" if record.spec.volume else ""
            return f"entry {other.entry} of class {other.storage_class}{volume}"
    return ""


def unclean(
    place: Place, *, inventory: Inventory, records: Mapping[Place, LocalDisk], index: Index
) -> LocalDisk | None:
    """The record of another place by which a cleaning of this disk was begun and never ended well, if no volume has it
    and the disk was not cleaned since."""
    own, facts = inventory.sightings.get(place), inventory.facts.get(place)
    if own is None or facts is None or facts.identity is None:
        return None
    for other in index.alike(facts.identity, directory=_is_directory(own)):
        record = records[other]
        if other == place or remains.taken(record) or not remains.unclean(record):
            continue
        if _is_disk_of(record, own, facts) and not remains.made_good(record, records=records, index=index):
            return record
    return None


def count_before(place: Place, group: str, *, inventory: Inventory, records: Mapping[Place, LocalDisk]) -> int:
    """How many other devices of a group of a LocalStorage volumes have, or were told to be offered before this one."""
    own = _right(place, inventory, records)
    found = (
        _right(other, inventory, records)
        for other in {*inventory.offered, *records}
        if _in_group(other, group, inventory, records)
    )
    return sum(right < own and right[0] < _NOT_OFFERED for right in found)


def _in_group(place: Place, group: str, inventory: Inventory, records: Mapping[Place, LocalDisk]) -> bool:
    record, facts = records.get(place), inventory.facts.get(place)
    if record is not None and group_of(record.status.matched_by) == group:
        return True
    # Its record may not say so yet.
    matches = facts.device.matches if facts is not None and facts.device is not None else ()
    return any(match.storage_class == place.storage_class and group_of(match.rule) == group for match in matches)


def _others(place: Place, own: Sighting, facts: Facts | None, inventory: Inventory) -> Iterator[Place]:
    yield from (other for other in inventory.with_target(own.target) if other != place)
    if facts is None or facts.device is None or not (facts.device.names.wwn or facts.device.parent):
        return
    for other, theirs in inventory.facts.items():
        if other != place and theirs.device is not None and _same_disk(facts.device, theirs.device):
            yield other


def _right(place: Place, inventory: Inventory, records: Mapping[Place, LocalDisk]) -> tuple[int, Place]:
    record = records.get(place)
    if record is not None and remains.taken(record):
        return 0, place
    offered = place in inventory.offered or (record is not None and record.status.eligible)
    return (1 if offered else _NOT_OFFERED), place


def _same_disk(own: BlockDevice, other: BlockDevice) -> bool:
    """Two ways to one disk, or the whole of which ours is a part."""
    wwn = own.names.wwn
    if wwn and wwn == other.names.wwn and own.size_bytes == other.size_bytes:
        return True
    return bool(own.parent) and own.parent == other.kernel_name


def _is_disk_of(record: LocalDisk, sighting: Sighting, facts: Facts | None) -> bool:
    """Whether what was seen is the disk that a record is about."""
    recorded = recorded_in(record)
    if recorded is None or facts is None or facts.identity is None:
        return False
    if record.status.kind == DiskKind.BLOCK_DEVICE:
        same_kind, contents = sighting.kind is DiskKind.BLOCK_DEVICE, False
    else:
        # Parts of one file system share its identity; which of them it is says the inode of its directory.
        if recorded.inode == facts.identity.inode != 0 and identity.read(recorded).same_file(facts.identity):
            return sighting.kind is not DiskKind.BLOCK_DEVICE
        same_kind, contents = not _is_directory(sighting) and sighting.kind is not DiskKind.BLOCK_DEVICE, True
    return same_kind and identity.read(recorded).same_device(facts.identity, contents=contents)


def _is_directory(sighting: Sighting) -> bool:
    """A plain one, or a part of a file system that is mounted there."""
    if sighting.kind is DiskKind.BLOCK_DEVICE:
        return False
    return sighting.mount is None or sighting.mount.root != "/"


def _has_own(place: Place, record: LocalDisk, inventory: Inventory) -> bool:
    """Whether a record has its disk in its own place; two disks can have the same serial number."""
    sighting, facts = inventory.sightings.get(place), inventory.facts.get(place)
    return sighting is not None and sighting.kind == record.status.kind and _is_disk_of(record, sighting, facts)
