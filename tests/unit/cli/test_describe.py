"""What people are told about disks and volumes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.cli import builders

from localpv.api.kinds.localdisk import LocalDisk
from localpv.cli import describe, disks, progress, tables, watch

GIB = builders.GIB
RUNNING = builders.cleaned(step="zeroing 1/2", bytesDone=5 * GIB, bytesTotal=10 * GIB, attempt=2)


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        (builders.disk(phase="Published"), "is offered as volume local-pv-1"),
        (builders.disk(phase="InUse"), "is in use as volume local-pv-1"),
        (builders.disk(phase="Unavailable", status={"reason": "HasHolders"}), "is not offered: HasHolders"),
        (builders.disk(phase="Missing", status={"reason": "NotMounted"}), "is not there: NotMounted"),
        (builders.disk(phase=""), "has not been looked at"),
        (RUNNING, "is being wiped"),
        (builders.cleaned(state="Failed"), "wiping it failed"),
    ],
)
def test_the_verdict_says_where_the_disk_is(disk: LocalDisk, said: str) -> None:
    assert said in describe.verdict(disk)


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("Available", "is offered as volume local-pv-1"),
        ("Bound", "belongs to claim default/data as volume local-pv-1"),
        ("Released", "is not offered: it was released by claim default/data as volume local-pv-1"),
    ],
)
def test_a_disk_whose_volume_somebody_has_or_had_is_not_called_offered(phase: str, said: str) -> None:
    assert describe.verdict(builders.disk(phase="Published"), builders.volume(phase)) == said


def test_a_reason_that_only_repeats_the_phase_is_left_out() -> None:
    assert describe.reason(builders.disk(phase="Published", status={"reason": "Published"})) == ""
    assert describe.reason(builders.disk(phase="Unavailable", status={"reason": "HasHolders"})) == "HasHolders"


def test_what_keeps_the_manager_from_offering_a_disk_is_part_of_the_verdict() -> None:
    condition = {"type": "Offered", "status": "False", "reason": "NoCapacity", "message": "Its size is not known."}
    disk = builders.disk(phase="Available", spec={"volume": None}, status={"conditions": [condition]})
    assert describe.verdict(disk) == "is fit to be offered, but is not: NoCapacity"
    assert describe.trouble(disk) == ("NoCapacity", "Its size is not known.")


@pytest.mark.parametrize("reason", ["NotCleaned", "UsedBefore"])
def test_a_disk_that_was_not_cleaned_has_the_hint_to_wipe_it(reason: str) -> None:
    disk = builders.disk(phase="Unavailable", status={"reason": reason})
    assert "localpv wipe node-a-nvme1-00000001" in describe.hint(disk)


def test_a_cleaning_for_another_volume_is_not_the_present_one() -> None:
    stale = builders.disk(status={"cleaning": {"volumeUID": "older", "state": "Verified"}})
    assert describe.current(stale) is None
    assert "the last one" in describe.cleaning(stale)


@pytest.mark.parametrize(
    ("phase", "policy", "disk", "said"),
    [
        ("Available", "Delete", None, "waits for a claim"),
        ("Bound", "Delete", None, "when claim default/data is deleted it is wiped"),
        ("Bound", "Retain", None, "is kept with its data"),
        ("Released", "Retain", builders.disk(), "localpv wipe node-a-nvme1-00000001"),
        ("Released", "Delete", builders.disk(), "the manager is to order it"),
        ("Released", "Delete", RUNNING, "being wiped, zeroing 1/2, 50 %, 5Gi of 10Gi, attempt 2"),
        ("Released", "Delete", builders.cleaned(state="Failed", error="No.", attempt=1), "wiping failed: No"),
        ("Released", "Delete", builders.cleaned(state="Verified"), "the disk is offered again now"),
        ("Released", "Retain", builders.cleaned(state="Verified"), "offered again once the volume is deleted"),
        ("Failed", "Delete", None, "needs a person"),
    ],
)
def test_a_volume_says_what_happens_next(phase: str, policy: str, disk: LocalDisk | None, said: str) -> None:
    volume = builders.volume(phase, persistentVolumeReclaimPolicy=policy)
    assert said in describe.next_step(volume, disk)


def test_names_cannot_move_the_cursor_of_whoever_looks() -> None:
    assert tables.shown("a\x1b[2Jb\nc") == "a?[2Jb?c"
    layout = tables.Layout(disks.COLUMNS, [evil := builders.disk("x\x1b[31m")])
    assert "\x1b" not in layout.row(evil)


def test_columns_stand_below_each_other_and_colours_do_not_move_them() -> None:
    found = [builders.disk("日本"), builders.disk("b" * 10, phase="Cleaning")]
    layout = tables.Layout(disks.COLUMNS, found)
    plain, coloured = layout.row(found[1]), layout.row(found[1], colour=True)
    assert layout.head().index("CLASS") == plain.index("fast")
    assert "\x1b[33mCleaning\x1b[0m" in coloured
    assert tables.width("日本") == 4


def test_disks_are_in_the_order_that_people_count() -> None:
    found = [builders.disk(name) for name in ("sdb10", "sdb9", "a")] + [builders.disk("z", "node-0")]
    assert [disk.spec.entry for disk in disks.in_order(found)] == ["z", "a", "sdb9", "sdb10"]


def test_ages_are_short() -> None:
    now = datetime(2026, 1, 10, tzinfo=UTC)
    ages = [tables.age(moment, now=now) for moment in ("2026-01-09T23:59:15Z", "2026-01-09T12:00:00Z", None)]
    assert ages == ["45s", "12h", ""]


def test_a_narrow_screen_keeps_name_phase_and_reason() -> None:
    found = [builders.disk(status={"reason": "Something"})]
    head = watch.fitting(found, 60, wide=False).head()
    assert watch.fitting(found, 60, wide=False).width <= 60
    assert {"NODE", "NAME", "PHASE", "REASON"} <= set(head.split())
    assert "MODEL" in watch.fitting(found, 200, wide=False).head()


def test_a_log_has_a_line_for_each_tenth_and_each_change_of_a_cell() -> None:
    lines = watch.Lines([RUNNING], wide=False)
    assert "50 %" in (lines.line(RUNNING) or "")
    same = builders.cleaned(step="zeroing 1/2", bytesDone=5 * GIB + 1, bytesTotal=10 * GIB, attempt=2)
    assert lines.line(same) is None
    further = builders.cleaned(step="zeroing 1/2", bytesDone=6 * GIB, bytesTotal=10 * GIB, attempt=2)
    assert "60 %" in (lines.line(further) or "")
    assert lines.line(builders.disk()) is not None


def test_a_bar_stays_a_while_after_its_end_and_then_goes() -> None:
    now = 100.0
    shown = progress.Bars(columns=120, clock=lambda: now)
    shown.show([RUNNING, builders.disk("idle")])
    assert len(shown) == 1
    finished = builders.disk(status={"cleaning": {"volumeUID": builders.UID, "state": "Verified"}})
    shown.show([finished])
    assert [task.fields["word"] for task in shown.progress.tasks] == ["verified"]
    now += progress.LINGER_SECONDS + 1
    shown.show([finished])
    assert len(shown) == 0


def test_a_disk_that_was_clean_before_we_looked_has_no_bar() -> None:
    shown = progress.Bars(columns=120)
    shown.show([builders.disk(status={"cleaning": {"volumeUID": builders.UID, "state": "Verified"}})])
    assert len(shown) == 0
