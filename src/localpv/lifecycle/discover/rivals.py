"""Which of several entries that lead to the same disk is the one that counts.

Whoever has the disk in a volume comes first, then who was told that it is offered, then the first by name: so a link
that is added later never takes a disk from one that is on its way to a tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from localpv.api.kinds.localdisk import DiskKind, LocalDisk
from localpv.lifecycle.discover import identities, rules
from localpv.lifecycle.discover.facts import Facts
from localpv.lifecycle.discover.roster import Roster
from localpv.lifecycle.discover.sighting import Place, Sighting
from localpv.model.devices import BlockDevice


def stronger(place: Place, *, roster: Roster, records: Mapping[Place, LocalDisk]) -> str:
    """Who else has this disk with a better right, in words; empty when nobody does."""
    own, facts = roster.sightings.get(place), roster.facts.get(place)
    if own is None or not own.target:
        return ""
    for other in _others(place, own, facts, roster):
        if _right(other, records) < _right(place, records):
            return f"entry {other.entry} of class {other.storage_class}"
    for other, record in records.items():
        if (other in roster.sightings and roster.sightings[other].target) or not rules.taken(record):
            continue
        # Its entry is gone or leads nowhere, but its volume still has the data on the disk.
        if other != place and _is_disk_of(record, own, facts):
            volume = record.spec.volume.name if record.spec.volume else record.spec.entry
            return f"volume {volume}, whose entry {other.entry} is missing"
    return ""


def _others(place: Place, own: Sighting, facts: Facts | None, roster: Roster) -> Iterator[Place]:
    yield from (other for other in roster.with_target(own.target) if other != place)
    if facts is None or facts.device is None or not (facts.device.wwn or facts.device.parent):
        return
    for other, theirs in roster.facts.items():
        if other != place and theirs.device is not None and _same_disk(facts.device, theirs.device):
            yield other


def _right(place: Place, records: Mapping[Place, LocalDisk]) -> tuple[int, Place]:
    record = records.get(place)
    if record is None:
        return 2, place
    return (0 if rules.taken(record) else 1 if record.status.eligible else 2), place


def _same_disk(own: BlockDevice, other: BlockDevice) -> bool:
    """Two ways to one disk, or the whole of which ours is a part."""
    if own.wwn and own.wwn == other.wwn and own.size_bytes == other.size_bytes:
        return True
    return bool(own.parent) and own.parent == other.kernel_name


def _is_disk_of(record: LocalDisk, sighting: Sighting, facts: Facts | None) -> bool:
    if record.spec.identity is None or facts is None or facts.identity is None:
        return False
    if record.status.kind == DiskKind.BLOCK_DEVICE:
        same_kind, contents = sighting.kind is DiskKind.BLOCK_DEVICE, False
    else:
        # Parts of one file system share its identity; only the whole of it is surely the same volume.
        same_kind, contents = sighting.mount is not None and sighting.mount.root == "/", True
    return same_kind and identities.read(record.spec.identity).same_device(facts.identity, contents=contents)
