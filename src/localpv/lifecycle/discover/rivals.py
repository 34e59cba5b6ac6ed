"""Which of several entries that lead to the same disk is the one that counts.

Whoever has the disk in a volume comes first, then who was told that it is offered, then the first by name: so a link
that is added later never takes a disk from one that is on its way to a tenant.
"""

from __future__ import annotations

from collections.abc import Mapping

from localpv.api.kinds.localdisk import DiskKind, LocalDisk
from localpv.lifecycle.discover import identities, rules
from localpv.lifecycle.discover.facts import Facts
from localpv.lifecycle.discover.sighting import Place, Sighting


def stronger(
    place: Place,
    *,
    sightings: Mapping[Place, Sighting],
    facts: Mapping[Place, Facts],
    records: Mapping[Place, LocalDisk],
) -> str:
    """Who else has this disk with a better right, in words; empty when nobody does."""
    own = sightings[place]
    if not own.target:
        return ""
    for other, seen in sightings.items():
        if other == place or not seen.target:
            continue
        if (seen.target == own.target or _same_disk(facts.get(place), facts.get(other))) and _right(
            other, records
        ) < _right(place, records):
            return f"entry {other.entry} of class {other.storage_class}"
    for other, record in records.items():
        seen_there = sightings.get(other)
        # Its entry is gone or leads nowhere, but its volume still has the data on the disk.
        lost = other != place and rules.taken(record) and not (seen_there and seen_there.target)
        if lost and _is_disk_of(record, own, facts.get(place)):
            volume = record.spec.volume.name if record.spec.volume else record.spec.entry
            return f"volume {volume}, whose entry {other.entry} is missing"
    return ""


def _right(place: Place, records: Mapping[Place, LocalDisk]) -> tuple[int, Place]:
    record = records.get(place)
    if record is None:
        return 2, place
    return (0 if rules.taken(record) else 1 if record.status.eligible else 2), place


def _same_disk(one: Facts | None, two: Facts | None) -> bool:
    """Two ways to one disk, or a disk and a part of it."""
    if one is None or two is None or one.device is None or two.device is None:
        return False
    if one.device.wwn and one.device.wwn == two.device.wwn and one.device.size_bytes == two.device.size_bytes:
        return True
    return two.device.kernel_name == one.device.parent


def _is_disk_of(record: LocalDisk, sighting: Sighting, facts: Facts | None) -> bool:
    if record.spec.identity is None or facts is None or facts.identity is None:
        return False
    if record.status.kind == DiskKind.BLOCK_DEVICE:
        same_kind, contents = sighting.kind is DiskKind.BLOCK_DEVICE, False
    else:
        # Parts of one file system share its identity; only the whole of it is surely the same volume.
        same_kind, contents = sighting.mount is not None and sighting.mount.root == "/", True
    return same_kind and identities.read(record.spec.identity).same_device(facts.identity, contents=contents)
