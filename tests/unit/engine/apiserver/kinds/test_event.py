"""Events of the two API groups, which share one store."""

from __future__ import annotations

from typing import Any

from tests.unit.engine.apiserver.kinds.writes import NAMESPACE, Writes

from localpv.engine.apiserver.kinds import event

CORE = Writes(event.CoreEvent(), "Event")
GROUP = Writes(event.GroupEvent(), "Event", "events.k8s.io")
POD = {"kind": "Pod", "namespace": NAMESPACE, "name": "p"}
WHEN = "2020-01-01T00:00:00.000000Z"
COMPLETE: dict[str, Any] = {
    "regarding": POD,
    "eventTime": WHEN,
    "reportingController": "example.com/c",
    "reportingInstance": "c-1",
    "action": "Bind",
    "reason": "Bound",
    "type": "Normal",
    "note": "done",
}


def test_an_event_reads_the_same_after_going_through_the_store() -> None:
    obj = GROUP.stored({**COMPLETE, "deprecatedSource": {}})
    core = event.to_core(obj)

    assert core["apiVersion"] == "v1"
    assert core["involvedObject"] == POD
    assert (core["message"], core["reportingComponent"]) == ("done", "example.com/c")
    assert event.from_core(core) == obj
    assert event.to_core(core) is core


def test_older_events_may_be_incomplete_but_belong_to_their_object() -> None:
    assert not CORE.create({"involvedObject": POD, "message": "x" * 2000, "type": "Odd", "count": 3}).errors
    elsewhere = {**POD, "namespace": "other"}
    assert CORE.create({"involvedObject": elsewhere}).causes == {("involvedObject.namespace", "Invalid")}
    assert CORE.create({}).causes == {("involvedObject.namespace", "Invalid")}


def test_events_with_a_time_are_complete_in_both_groups() -> None:
    missing = {("reportingInstance", "Required"), ("action", "Required"), ("reason", "Required")}

    for writes, about, name in (
        (CORE, "involvedObject", "reportingComponent"),
        (GROUP, "regarding", "reportingController"),
    ):
        outcome = writes.create({about: POD, "eventTime": WHEN, "type": "Normal"})
        assert outcome.causes == missing | {(name, "Required"), (name, "Invalid")}


def test_the_newer_group_is_strict_with_new_events() -> None:
    assert not GROUP.create(COMPLETE).errors
    assert GROUP.create({**COMPLETE, "type": "Odd"}).causes == {("type", "Invalid")}
    assert GROUP.create({**COMPLETE, "deprecatedCount": 2}).causes == {("count", "Invalid")}
    assert GROUP.create({**COMPLETE, "series": {"count": 1}}).causes == {
        ("series.count", "Invalid"),
        ("series.lastObservedTime", "Required"),
    }
    assert GROUP.create({**COMPLETE, "note": "n" * 1025}).causes == {("message", "Invalid")}


def test_in_the_newer_group_only_the_series_of_an_event_changes() -> None:
    old = GROUP.stored(COMPLETE)

    assert not GROUP.update(old, series={"count": 2, "lastObservedTime": WHEN}).errors
    assert GROUP.update(old, note="else", reason="Else", reportingController="other").causes == {
        ("message", "Invalid"),
        ("reason", "Invalid"),
        ("reportingController", "Invalid"),
    }
    assert not CORE.update(event.to_core(old), message="else").errors


def test_event_of_the_older_group_can_be_counted_up_through_the_newer() -> None:
    old = event.from_core(CORE.stored({"involvedObject": POD, "count": 3, "type": "Odd"}))

    assert not GROUP.update(old, series={"count": 4, "lastObservedTime": WHEN}).errors


def test_events_are_found_by_what_they_are_about_under_either_name() -> None:
    obj = GROUP.stored(COMPLETE)

    assert event.GroupEvent().selectable(obj)["regarding.name"] == "p"
    core = event.CoreEvent().selectable(event.to_core(obj))
    assert (core["involvedObject.name"], core["source"]) == ("p", "example.com/c")
