"""What a look at a disk makes of its record."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localpv.agent.discover import phase, remains
from localpv.agent.discover.entry import Sighting
from localpv.agent.discover.probe import NOTHING, Facts
from localpv.agent.discover.rules import Verdict
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleanOrder,
    DiskIdentity,
    DiskKind,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
    VolumeMode,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.host.folders import Entry, FileKind
from localpv.host.model.devices import BlockDevice, DeviceNumber, Medium
from localpv.host.model.identity import Identity
from localpv.testing.fake_host import block_device

GIB = 1 << 30
VOLUME, ORDER = OfferedVolume(name="pv-1", uid="u"), CleanOrder(volume_name="pv-1", volume_uid="u")
VERIFIED, FAILED = Cleaning(volume_uid="u", state="Verified"), Cleaning(volume_uid="u", state="Failed", attempt=1)
SEEN = Facts(identity=Identity(serial="S1"), medium=Medium.SSD, capacity_bytes=10 * GIB)
FIT = Verdict(eligible=True, reason="Available", message="Fit.", kind=DiskKind.BLOCK_DEVICE, mode=VolumeMode.BLOCK)
UNFIT = Verdict(eligible=False, reason="Mounted", message="No.", kind=DiskKind.BLOCK_DEVICE, mode=VolumeMode.BLOCK)
GONE = Verdict(eligible=False, reason="Other", message="No.", kind=None, mode=VolumeMode.BLOCK, missing=True)


def a_record(*, volume: OfferedVolume | None = None, clean: CleanOrder | None = None, **status: Any) -> LocalDisk:
    return LocalDisk(
        metadata=ObjectMeta(name="disk"),
        spec=LocalDiskSpec(
            node_name="n",
            storage_class_name="fast",
            entry="a",
            path="/mnt/fast/a",
            volume_mode="Block",
            volume=volume,
            clean=clean,
        ),
        status=LocalDiskStatus(**{"kind": "Directory", "identity": DiskIdentity(serial="S1"), **status}),
    )


def seen(record: LocalDisk, verdict: Verdict = FIT, facts: Facts = SEEN, **sighting: Any) -> LocalDiskStatus:
    entry = Entry(name="a", kind=FileKind.BLOCK_DEVICE)
    return phase.seen(record, verdict, Sighting(entry=entry, folder=Path("/mnt/fast"), **sighting), facts)


def test_everything_that_was_read_is_in_the_record() -> None:
    status = seen(a_record())
    assert (status.kind, status.medium, status.capacity_bytes, status.size) == ("BlockDevice", "SSD", 10 * GIB, "10Gi")
    assert status.identity is not None and status.identity.serial == "S1"
    assert (status.phase, status.eligible, status.reason, status.message) == ("Available", True, "Available", "Fit.")


def test_what_was_not_read_is_empty_in_the_record() -> None:
    kindless = Verdict(eligible=False, reason="Other", message="No.", kind=None, mode=VolumeMode.BLOCK)
    status = seen(a_record(size="10Gi"), kindless, NOTHING)
    assert (status.kind, status.medium, status.capacity_bytes, status.size, status.identity) == ("", "", 0, "", None)


@pytest.mark.parametrize(
    ("verdict", "facts"),
    [(UNFIT, Facts(hung=True, trouble="no answer")), (UNFIT, Facts(trouble="no")), (GONE, SEEN)],
    ids=["hung", "unreadable", "missing"],
)
def test_disk_that_was_not_seen_keeps_what_is_known_of_it(verdict: Verdict, facts: Facts) -> None:
    before = a_record(size="1Gi", capacity_bytes=GIB, cleaning=VERIFIED)
    status = seen(before, verdict, facts)
    assert (status.kind, status.size, status.identity, status.cleaning) == (
        "Directory",
        "1Gi",
        before.status.identity,
        VERIFIED,
    )


OTHER_DISK = Facts(identity=Identity(serial="S2"), capacity_bytes=GIB)


@pytest.mark.parametrize(
    ("record", "facts", "kept"),
    [
        (a_record(cleaning=VERIFIED), SEEN, True),
        (a_record(cleaning=VERIFIED), OTHER_DISK, False),
        (a_record(cleaning=FAILED), OTHER_DISK, True),
        (a_record(cleaning=VERIFIED, volume=VOLUME), OTHER_DISK, True),
        (a_record(cleaning=VERIFIED, clean=ORDER), OTHER_DISK, True),
    ],
    ids=["the same disk", "another disk", "not clean", "of a volume", "ordered"],
)
def test_verified_cleaning_is_forgotten_with_its_disk_and_no_other_one(
    record: LocalDisk, facts: Facts, kept: bool
) -> None:
    assert (seen(record, FIT, facts).cleaning is not None) is kept


def test_disk_of_a_volume_says_whether_it_is_in_use() -> None:
    published, device = (
        a_record(volume=VOLUME),
        block_device(path=Path("/dev/sdb"), kernel_name="sdb", number=DeviceNumber(8, 16), size_bytes=GIB, serial="S1"),
    )
    said = {
        "offered": seen(published),
        "mounted elsewhere": seen(published, elsewhere=("/x",)),
        "held": seen(published, FIT, Facts(device=_with_holder(device), identity=device.identity)),
        "free": seen(published, FIT, Facts(device=device, identity=device.identity)),
    }
    assert {name: (status.phase, status.reason, status.message) for name, status in said.items()} == {
        "offered": ("Published", "Published", "Volume pv-1 offers it."),
        "mounted elsewhere": ("InUse", "InUse", "Volume pv-1 is in use."),
        "held": ("InUse", "InUse", "Volume pv-1 is in use."),
        "free": ("Published", "Published", "Volume pv-1 offers it."),
    }
    unfit = seen(published, UNFIT)
    assert (unfit.phase, unfit.eligible, unfit.reason, unfit.message) == ("Published", False, "Mounted", "No.")


def _with_holder(device: BlockDevice) -> BlockDevice:
    return dataclasses.replace(device, holders=("loop0",))


@pytest.mark.parametrize(
    ("volume", "phases"),
    [(None, ("Missing", "Unavailable", "Unavailable")), (VOLUME, ("Missing", "Published", "Unavailable"))],
)
def test_entry_that_is_gone_silent_or_unmanaged_is_never_fit(
    volume: OfferedVolume | None, phases: tuple[str, ...]
) -> None:
    record = a_record(volume=volume, eligible=True)
    found = [say(record, "Word", "Words.") for say in (phase.gone, phase.silent, phase.unmanaged)]
    assert tuple(status.phase for status in found) == phases
    assert {(status.eligible, status.reason, status.message) for status in found} == {(False, "Word", "Words.")}


def test_disk_that_is_cleaned_is_not_fit_and_its_cleaner_knows_best_what_to_say() -> None:
    first = seen(a_record(clean=ORDER, phase="Published"))
    assert (first.phase, first.eligible, first.reason) == ("Releasing", False, "Releasing")
    assert first.message == "The disk is being cleaned for volume pv-1."
    again = seen(a_record(clean=ORDER, phase="Releasing", reason="InUse", message="It is mounted."))
    assert (again.phase, again.eligible, again.reason, again.message) == (
        "Releasing",
        False,
        "InUse",
        "It is mounted.",
    )


def test_mount_that_is_gone_is_missing_even_if_no_volume_had_it() -> None:
    was = Verdict(
        eligible=False,
        reason="WasMountPoint",
        message="",
        kind=DiskKind.DIRECTORY,
        mode=VolumeMode.FILESYSTEM,
        missing=True,
    )
    assert seen(a_record(), was).phase == "Missing"
    assert seen(a_record(), GONE).phase == "Unavailable"


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (a_record(), False),
        (a_record(cleaning=VERIFIED), False),
        (a_record(cleaning=FAILED), True),
        (a_record(kind="BlockDevice", cleaning=msgspec.structs.replace(VERIFIED, method=("fs-reset",))), True),
        (a_record(kind="BlockDevice", cleaning=msgspec.structs.replace(VERIFIED, method=("/opt/clean",))), True),
        (a_record(kind="BlockDevice", cleaning=msgspec.structs.replace(VERIFIED, method=("zeroout",))), False),
        (a_record(kind="MountPoint", cleaning=msgspec.structs.replace(VERIFIED, method=("/opt/clean",))), False),
        (a_record(volume=VOLUME), True),
        (a_record(clean=ORDER), True),
    ],
)
def test_record_outlives_its_entry_while_a_volume_has_the_disk_or_it_may_hold_data(
    record: LocalDisk, kept: bool
) -> None:
    assert (phase.bound(record) or remains.may_show(record)) is kept
