"""One function decides where on the circle a disk is, and both who write it agree."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localpv.agent.clean import states
from localpv.agent.discover import phase
from localpv.agent.discover.entry import Sighting
from localpv.agent.discover.probe import NOTHING
from localpv.agent.discover.rules import Verdict
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleaningState,
    CleanOrder,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
    Phase,
    VolumeMode,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.disk.phase import Look, decide
from localpv.host.folders import Entry, FileKind

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RETAINED = OfferedVolume(name="pv-1", uid="uid-1", reclaim_policy="Retain")
ORDER = CleanOrder(volume_name="pv-1", volume_uid="uid-1")

LOOKS = {
    "fit": Look(eligible=True),
    "fit and used": Look(eligible=True, used=True),
    "unfit": Look(eligible=False),
    "unfit and used": Look(eligible=False, used=True),
    "missing": Look(eligible=False, missing=True),
    "missing and used": Look(eligible=False, missing=True, used=True),
    "missing and expected": Look(eligible=False, missing=True, expected=True),
    "unmanaged": Look(eligible=False, managed=False),
    "not looked at": None,
}
CLEANINGS = {
    "no cleaning": None,
    **{
        f"{state.value} for {uid}": Cleaning(volume_uid=uid, state=state.value, attempt=1)
        for state, uid in itertools.product(CleaningState, ("uid-1", "uid-0"))
    },
}
ORDERED = {
    "Waiting for uid-1": "Releasing",
    "Running for uid-1": "Cleaning",
    "Failed for uid-1": "CleanFailed",
    "Verified for uid-1": "Releasing",
}
"""With an order for uid-1; whatever is known of another volume's cleaning, and before there is one: Releasing."""

WITH_VOLUME = {
    "fit": "Published",
    "fit and used": "InUse",
    "unfit": "Published",
    "unfit and used": "InUse",
    "missing": "Missing",
    "missing and used": "Missing",
    "missing and expected": "Missing",
    "unmanaged": "Unavailable",
    "not looked at": None,
}
WITHOUT = {
    "fit": "Available",
    "fit and used": "Available",
    "unfit": "Unavailable",
    "unfit and used": "Unavailable",
    "missing": "Unavailable",
    "missing and used": "Unavailable",
    "missing and expected": "Missing",
    "unmanaged": "Unavailable",
    "not looked at": None,
}


def a_disk(*, volume: OfferedVolume | None = None, clean: CleanOrder | None = None, **status: Any) -> LocalDisk:
    return LocalDisk(
        metadata=ObjectMeta(name="disk"),
        spec=LocalDiskSpec(
            node_name="n",
            storage_class_name="fast",
            entry="sdb",
            path="/mnt/disks/sdb",
            volume_mode="Block",
            volume=volume,
            clean=clean,
        ),
        status=LocalDiskStatus(**status),
    )


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("cleaning", CLEANINGS)
@pytest.mark.parametrize("volume", [None, RETAINED], ids=["no volume", "volume"])
@pytest.mark.parametrize("order", [None, ORDER], ids=["no order", "order"])
def test_every_combination(order: CleanOrder | None, volume: OfferedVolume | None, cleaning: str, look: str) -> None:
    if order is not None:
        expected: str | None = ORDERED.get(cleaning, "Releasing")
    elif volume is not None:
        expected = WITH_VOLUME[look]
    else:
        expected = WITHOUT[look]
        unclean = not cleaning.startswith(("no ", "Verified"))
        if unclean and look.startswith("missing"):
            expected = "Missing"  # what a volume left may be on it
    assert decide(a_disk(volume=volume, clean=order), CLEANINGS[cleaning], LOOKS[look]) == expected


def discovered(disk: LocalDisk, *, eligible: bool, missing: bool, used: bool) -> LocalDisk:
    """As discovery writes it."""
    verdict = Verdict(
        eligible=eligible, reason="Word", message="Words.", kind=None, mode=VolumeMode.BLOCK, missing=missing
    )
    sighting = Sighting(
        entry=Entry(name="sdb", kind=FileKind.OTHER), folder=Path("/mnt/disks"), elsewhere=("/x",) if used else ()
    )
    return msgspec.structs.replace(disk, status=phase.seen(disk, verdict, sighting, NOTHING))


def cleaned(disk: LocalDisk, step: str) -> LocalDisk:
    """As the cleaner writes it, one step after the other."""
    why, order = states.Reason("Word", "words"), disk.spec.clean
    under_way = disk.status.cleaning is not None and disk.status.cleaning.state == CleaningState.RUNNING
    if order is not None and step == "waiting":
        status = states.waiting(disk, order, why, method=())
    elif order is not None and step == "refused":
        status = states.refused(disk, order, why, method=())
    elif order is not None and step == "running":
        status = states.running(disk, order, method=(), now=NOW, size=1)
    elif under_way and step == "failed":
        status = states.failed(disk, why, now=NOW)
    elif under_way and step == "verified":
        status = states.verified(disk, now=NOW)
    elif order is None and step == "untouched":
        status = states.untouched(disk)
    else:
        return disk
    return msgspec.structs.replace(disk, status=status)


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["waiting", "refused", "running", "failed", "verified", "untouched"]),
        st.tuples(st.booleans(), st.booleans(), st.booleans()),
        st.sampled_from([("order", None), ("order", ORDER), ("volume", None), ("volume", RETAINED)]),
    ),
    max_size=12,
)


@given(steps=STEPS)
@settings(max_examples=400)
def test_whoever_writes_last_the_other_one_agrees(steps: list[Any]) -> None:
    disk, look = discovered(a_disk(), eligible=True, missing=False, used=False), (True, False, False)
    for step in steps:
        if isinstance(step, str):
            before, disk = disk, cleaned(disk, step)
            if disk is before or step == "untouched":
                continue  # nothing to do, or nothing said about the phase
        elif isinstance(step[0], bool):
            look = step
            eligible, missing, used = look
            disk = discovered(disk, eligible=eligible and not missing, missing=missing, used=used)
        else:
            field = {"order": "clean", "volume": "volume"}[step[0]]
            disk = msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, **{field: step[1]}))
            continue  # the manager writes the spec; both are called because of it
        eligible, missing, used = look
        again = discovered(disk, eligible=eligible and not missing, missing=missing, used=used)
        if disk.spec.clean is not None:
            assert again.status.phase == disk.status.phase, "discovery changed what the cleaner decided"
        assert discovered(again, eligible=eligible and not missing, missing=missing, used=used) == again


def test_a_retained_volume_that_was_wiped_by_hand_is_not_said_to_be_cleaned_for_ever() -> None:
    disk = a_disk(volume=RETAINED, clean=ORDER)
    for step in ("running", "verified"):
        disk = discovered(cleaned(disk, step), eligible=True, missing=False, used=False)
    assert (disk.status.phase, disk.status.reason) == (Phase.RELEASING, "Cleaned")
    assert "when somebody deletes volume pv-1" in disk.status.message
