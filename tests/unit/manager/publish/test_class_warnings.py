"""Users are told where the next tenant of a disk can read what the last one wrote."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from tests.unit.manager.worlds import CLASS, NODE, World, drive

from localpv.api.kinds.localdisk import DiskKind, LocalDisk, VolumeMode
from localpv.config import cleaners
from localpv.config.settings import Configuration
from localpv.disk import labels
from localpv.manager.publish.class_warnings import ClassWarnings
from localpv.observe.conditions import DiskConditions
from localpv.observe.recorder import Recorder


class Told:
    def __init__(self, method: str) -> None:
        self.world = World(block_cleaner=cleaners.read((method,), for_devices=True))
        recorder = Recorder(self.world.events)
        conditions = DiskConditions(records=self.world.records, recorder=recorder, clock=self.world.clock)
        self.cautions = ClassWarnings(conditions=conditions, recorder=recorder, listers=self.world.listers)

    def disk(self, mode: VolumeMode, kind: DiskKind = DiskKind.BLOCK_DEVICE) -> LocalDisk:
        found = self.world.find_disk(kind=kind)
        return self.world.records.change(found, spec=msgspec.structs.replace(found.spec, volume_mode=mode))

    def step(self, disk: LocalDisk) -> list[str]:
        """The messages in its conditions afterwards."""
        written = drive(self.cautions.step(disk))
        return [one.message for one in written.status.conditions if one.type == labels.DATA_READABLE]

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(about, reason) for about, reason, _ in self.world.events.told]


def test_raw_device_whose_old_blocks_stay_is_told_once_on_its_class_and_on_each_disk() -> None:
    told = Told("fs-reset")
    disk = told.disk(VolumeMode.BLOCK)
    (message,) = told.step(disk)
    assert "cleaned with fs-reset" in message and "blockCleanerCommand: [zeroout]" in message
    assert told.step(told.world.disk) == [message]
    assert told.events == [(CLASS, labels.DATA_READABLE)]
    assert told.world.events.warnings == told.events


def test_without_a_class_it_is_told_on_the_node() -> None:
    told = Told("fs-reset")
    told.world.listers.classes.clear()
    told.step(told.disk(VolumeMode.BLOCK))
    assert told.events == [(NODE, labels.DATA_READABLE)]


def test_nothing_is_told_where_nothing_is_left() -> None:
    for told, disk in (
        ((one := Told("zeroout")), one.disk(VolumeMode.BLOCK)),
        ((two := Told("fs-reset")), two.disk(VolumeMode.FILESYSTEM)),
        ((three := Told("fs-reset")), three.disk(VolumeMode.BLOCK, DiskKind.MOUNT_POINT)),
    ):
        assert told.step(disk) == []
        assert told.events == []


def test_condition_goes_with_the_method_and_with_the_class() -> None:
    for without in ("method", "class"):
        told = Told("fs-reset")
        told.step(told.disk(VolumeMode.BLOCK))
        known = told.world.listers.configuration
        if without == "class":
            told.world.listers.configuration = Configuration(classes={})
        else:
            better = cleaners.read(("zeroout",), for_devices=True)
            classes = {CLASS: replace(known.classes[CLASS], block_cleaner=better)}
            told.world.listers.configuration = replace(known, classes=classes)
        assert told.step(told.world.disk) == []
