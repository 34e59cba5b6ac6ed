"""Watching: where it starts, what it tells, how it ends."""

from __future__ import annotations

import json
import time
import urllib.request

import pytest
from tests.contract import builders, custom, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

from localpv.testing.waiting import PATIENCE_SECONDS

BOOKMARK_END = "k8s.io/initial-events-end"


def _now(api: Api, space: Space) -> str:
    version: str = api.get(space.core("secrets"))["metadata"]["resourceVersion"]
    return version


def test_watch_from_a_version_tells_what_came_after(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("before"))
    with api.watch(space.core("secrets"), resourceVersion=_now(api, space)) as watch:
        made = api.post(space.core("secrets"), builders.secret("after"))
        changed = api.merge(space.core("secrets", "after"), {"data": {"a": "MQ=="}})
        api.delete(space.core("secrets", "after"))
        added, modified, deleted = watch.next(), watch.next(), watch.next()
    assert (added.type, added.object) == ("ADDED", made)
    assert (modified.type, modified.object) == ("MODIFIED", changed)
    assert (deleted.type, deleted.name) == ("DELETED", "after")
    assert int(deleted.object["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])
    assert deleted.object["data"] == {"a": "MQ=="}


def test_watch_replays_history_without_a_gap(api: Api, space: Space) -> None:
    start = _now(api, space)
    api.post(space.core("secrets"), builders.secret("one"))
    api.post(space.core("secrets"), builders.secret("two"))
    api.delete(space.core("secrets", "one"))
    with api.watch(space.core("secrets"), resourceVersion=start) as watch:
        assert watch.take(3) == [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one")]


@pytest.mark.parametrize("version", ["0", None])
def test_watch_without_a_version_begins_with_what_exists(api: Api, space: Space, version: str | None) -> None:
    api.post(space.core("secrets"), builders.secret("one"))
    api.post(space.core("secrets"), builders.secret("two"))
    with api.watch(space.core("secrets"), resourceVersion=version) as watch:
        assert sorted(watch.take(2)) == [("ADDED", "one"), ("ADDED", "two")]
        api.post(space.core("secrets"), builders.secret("three"))
        assert watch.take(1) == [("ADDED", "three")]


def test_initial_events_end_with_a_marked_bookmark(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one"))
    options = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": "",
    }
    with api.watch(space.core("secrets"), **options) as watch:
        assert watch.take(1) == [("ADDED", "one")]
        bookmark = watch.next()
        made = api.post(space.core("secrets"), builders.secret("two"))
        after = _next_change(watch)
    assert bookmark.type == "BOOKMARK"
    assert bookmark.object["kind"] == "Secret"
    assert bookmark.object["metadata"]["annotations"] == {BOOKMARK_END: "true"}
    assert (after.type, after.name) == ("ADDED", "two")
    assert int(bookmark.object["metadata"]["resourceVersion"]) < int(made["metadata"]["resourceVersion"])


def _next_change(watch: wire.Watch) -> wire.Event:
    while (event := watch.next()).type == "BOOKMARK":
        pass
    return event


def test_watch_resumes_from_the_bookmark_of_an_empty_selection(api: Api, space: Space) -> None:
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(space.core("secrets"), **options) as watch:
        bookmark = watch.next()
    assert bookmark.type == "BOOKMARK"
    api.post(space.core("secrets"), builders.secret("later"))
    version = bookmark.object["metadata"]["resourceVersion"]
    with api.watch(space.core("secrets"), resourceVersion=version) as watch:
        assert watch.take(1) == [("ADDED", "later")]


@pytest.mark.parametrize(
    "options",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "1"},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
    ],
)
def test_initial_events_and_match_need_each_other(api: Api, space: Space, options: dict[str, str]) -> None:
    with api.watch(space.core("secrets"), **options) as watch:
        assert watch.code == 422
        status = watch.status()
    assert status["reason"] == "Invalid"


def test_selection_turns_changes_into_arrivals_and_departures(api: Api, space: Space) -> None:
    path = space.core("secrets")
    with api.watch(path, resourceVersion=_now(api, space), labelSelector="on=yes") as watch:
        api.post(path, builders.secret("it"))
        entered = api.merge(f"{path}/it", {"metadata": {"labels": {"on": "yes"}}})
        api.merge(f"{path}/it", {"data": {"a": "MQ=="}})
        left = api.merge(f"{path}/it", {"metadata": {"labels": {"on": "no"}}})
        api.merge(f"{path}/it", {"data": {"a": "Mg=="}})
        api.post(path, builders.secret("last", labels={"on": "yes"}))
        events = [watch.next() for _ in range(4)]
    assert [(event.type, event.name) for event in events] == [
        ("ADDED", "it"),
        ("MODIFIED", "it"),
        ("DELETED", "it"),
        ("ADDED", "last"),
    ]
    assert events[0].object == entered
    # Whoever leaves the selection is told as last seen in it, at the version of the change that took it out.
    assert events[2].object["metadata"]["labels"] == {"on": "yes"}
    assert events[2].object["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


def test_watch_of_one_name(api: Api, space: Space) -> None:
    path = space.core("secrets")
    with api.watch(path, resourceVersion=_now(api, space), fieldSelector="metadata.name=mine") as watch:
        api.post(path, builders.secret("yours"))
        api.post(path, builders.secret("mine"))
        assert watch.take(1) == [("ADDED", "mine")]


def test_field_selection_follows_the_node_of_a_pod(api: Api, space: Space) -> None:
    path = space.core("pods")
    version = api.get(path)["metadata"]["resourceVersion"]
    with api.watch(path, resourceVersion=version, fieldSelector="spec.nodeName=node-1") as watch:
        api.post(path, builders.pod("one"))
        binding = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "node-1"}}
        api.post(f"{path}/one/binding", binding)
        event = watch.next()
    assert (event.type, event.name, event.object["spec"]["nodeName"]) == ("ADDED", "one", "node-1")


def test_watch_ends_after_its_timeout(api: Api, space: Space) -> None:
    began = time.monotonic()
    with api.watch(space.core("secrets"), timeoutSeconds=1) as watch:
        assert list(watch.until_closed()) == []
    assert time.monotonic() - began > 0.5, "and not before"


def test_watch_as_table(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one"))
    with api.watch(space.core("secrets"), accept=wire.TABLE, resourceVersion="0") as watch:
        first = watch.next()
        api.post(space.core("secrets"), builders.secret("two"))
        second = watch.next()
    assert first.object["kind"] == "Table"
    assert [column["name"] for column in first.object["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]
    assert first.object["rows"][0]["cells"][0] == "one"
    # The columns are told once.
    assert not second.object.get("columnDefinitions")
    assert second.object["rows"][0]["cells"][0] == "two"


def test_watch_as_partial_metadata(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one", data={"a": "MQ=="}))
    with api.watch(space.core("secrets"), accept=wire.PARTIAL_OBJECT, resourceVersion="0") as watch:
        event = watch.next()
    assert event.object["kind"] == "PartialObjectMetadata"
    assert "data" not in event.object


def test_watch_across_namespaces(api: Api, space: Space) -> None:
    label = builders.unique("label")
    with api.watch("/api/v1/secrets", resourceVersion=_now(api, space), labelSelector=f"test={label}") as watch:
        api.post(space.core("secrets"), builders.secret("one", labels={"test": label}))
        assert watch.next().object["metadata"]["namespace"] == space.name


def test_old_watch_path_still_works(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one"))
    old = f"/api/v1/watch/namespaces/{space.name}/secrets"
    with wire.Watch(api._connect(), old, wire._headers(api.token, "application/json")) as watch:
        assert watch.take(1) == [("ADDED", "one")]


def test_watch_from_the_future_stays_silent_until_then(api: Api, space: Space) -> None:
    future = str(int(_now(api, space)) + 1_000_000)
    with api.watch(space.core("secrets"), resourceVersion=future, timeoutSeconds=1) as watch:
        api.post(space.core("secrets"), builders.secret("early"))
        assert list(watch.until_closed()) == []


def test_version_must_be_a_number(api: Api, space: Space) -> None:
    with api.watch(space.core("secrets"), resourceVersion="abc") as watch:
        # Kubernetes answers 500 to a watch and 400 to a list; neither begins.
        assert watch.code >= 400
        assert 'resourceVersion: Invalid value: "abc"' in watch.status()["message"]


def test_watch_of_an_unknown_selector_is_refused(api: Api, space: Space) -> None:
    with api.watch(space.core("configmaps"), fieldSelector="data.a=1") as watch:
        assert watch.code == 400
        assert "is not a known field selector" in watch.status()["message"]


def test_compacted_history_is_expired(api: Api, space: Space) -> None:
    """Only where the tests own the etcd below: no client can ask for a compaction."""
    if api.target.etcd_url is None:
        pytest.skip("the history of this server cannot be compacted from outside")
    old = _now(api, space)
    newest = api.post(space.core("secrets"), builders.secret())["metadata"]["resourceVersion"]
    _compact(api.target.etcd_url, int(newest))
    # A kind that is younger than the compaction: no cache of the server remembers what came before.
    kind = custom.Kind()
    custom.define(api, kind.definition())
    exact = {"resourceVersion": old, "resourceVersionMatch": "Exact", "limit": 500}
    status = api.get(kind.path(space), expect=410, **exact)
    assert (status["reason"], status["code"]) == ("Expired", 410)
    with api.watch(kind.path(space), resourceVersion=old) as watch:
        told = watch.next()
    assert (told.type, told.object["code"], told.object["reason"]) == ("ERROR", 410, "Expired")
    assert told.object["message"].startswith("too old resource version")


def _compact(etcd_url: str, revision: int) -> None:
    body = json.dumps({"revision": revision}).encode()
    with urllib.request.urlopen(f"{etcd_url}/v3/kv/compaction", data=body, timeout=PATIENCE_SECONDS) as answer:
        answer.read()


def test_watch_from_long_ago_is_expired_or_whole(api: Api, space: Space) -> None:
    """How much history is kept is the server's choice, but it never skips: 410, or every event."""
    api.post(space.core("secrets"), builders.secret("one"))
    with api.watch(space.core("secrets"), resourceVersion="1") as watch:
        first = watch.next() if watch.code == 200 else wire.Event("ERROR", watch.status())
    if first.type == "ERROR":
        assert (first.object["code"], first.object["reason"]) == (410, "Expired")
    else:
        assert (first.type, first.name) == ("ADDED", "one")
