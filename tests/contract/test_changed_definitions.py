"""Objects that were stored under another schema than the one in force: what readers and writers see of them."""

from __future__ import annotations

from typing import Any

from tests.contract import custom, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

PLAN = custom.Plan()
OLD = custom.with_spec({"size": {"type": "integer"}, "color": {"type": "string"}})
NEW = custom.with_spec(
    {
        "size": {"type": "integer"},
        "mode": {"type": "string", "default": "fast"},
        "inner": custom.an_object({"on": {"type": "boolean", "default": True}}, default={}),
    }
)
NOW: Any = {"size": 1, "mode": "fast", "inner": {"on": True}}


def an_aged_object(api: Api, space: Space, kind: custom.Kind) -> str:
    """Store an object, then give its kind a schema with defaults and without one of the fields; the object's path."""
    path = kind.path(space, "one")
    api.post(kind.path(space), kind.object("one", spec={"size": 1, "color": "red"}))
    change(api, kind, NEW)
    wire.eventually(lambda: seen(api, path) == NOW, "the new schema is in force")
    return path


def seen(api: Api, path: str) -> Any:
    answer = api.send("GET", path)
    return answer.body.get("spec") if answer.code == 200 else None


def change(api: Api, kind: custom.Kind, schema: Any) -> None:
    """Give the only version of a kind another schema."""
    path = f"{custom.DEFINITIONS}/{kind.name}"
    versions = api.get(path)["spec"]["versions"]
    versions[0]["schema"] = {"openAPIV3Schema": schema}
    api.merge(path, {"spec": {"versions": versions}})


READ = PLAN.kind(OLD)


def test_it_is_read_with_the_defaults_of_now_and_without_what_is_unknown_now(api: Api, space: Space) -> None:
    kind = READ
    path = an_aged_object(api, space, kind)
    assert api.get(path)["spec"] == NOW
    (item,) = api.get(kind.path(space))["items"]
    assert item["spec"] == NOW
    stored = item["metadata"]["resourceVersion"]
    assert api.get(path)["metadata"]["resourceVersion"] == stored
    columns = api.get(kind.path(space), accept=wire.TABLE, includeObject="Object")
    assert columns["rows"][0]["object"]["spec"] == NOW
    # A default that is taken back is gone as well: it was never stored.
    change(api, kind, OLD)
    wire.eventually(lambda: seen(api, path) == {"size": 1, "color": "red"}, "the old schema is in force again")


WATCHED = PLAN.kind(OLD)


def test_it_is_watched(api: Api, space: Space) -> None:
    kind = WATCHED
    path = an_aged_object(api, space, kind)
    with api.watch(kind.path(space)) as watch:
        event = watch.next()
        assert (event.type, event.object["spec"]) == ("ADDED", NOW)
        api.merge(path, {"metadata": {"labels": {"a": "b"}}})
        event = watch.next()
        assert (event.type, event.object["spec"]) == ("MODIFIED", NOW)
        api.delete(path)
        event = watch.next()
        assert (event.type, event.object["spec"]) == ("DELETED", NOW)


PATCHED = PLAN.kind(OLD)


def test_it_is_what_patches_start_from(api: Api, space: Space) -> None:
    path = an_aged_object(api, space, PATCHED)
    tested = [
        {"op": "test", "path": "/spec/mode", "value": "fast"},
        {"op": "replace", "path": "/spec/inner/on", "value": False},
    ]
    assert api.json_patch(path, tested)["spec"] == NOW | {"inner": {"on": False}}
    assert api.merge(path, {"spec": {"size": 2}})["spec"] == {"size": 2, "mode": "fast", "inner": {"on": False}}
    applied = PATCHED.object("one", spec={"mode": "slow"})
    assert api.apply(path, applied, force="true")["spec"]["mode"] == "slow"


SELECTED = PLAN.kind(
    custom.with_spec({"size": {"type": "integer"}, "color": {"type": "string"}, "mode": {"type": "string"}}),
    selectableFields=[{"jsonPath": ".spec.mode"}],
)


def test_it_is_selected_by_its_defaults(api: Api, space: Space) -> None:
    kind = SELECTED
    an_aged_object(api, space, kind)
    (item,) = api.get(kind.path(space), fieldSelector="spec.mode=fast")["items"]
    assert item["spec"] == NOW


WRITTEN = PLAN.kind(OLD)


def test_an_update_that_changes_nothing_stores_what_readers_see(api: Api, space: Space) -> None:
    path = an_aged_object(api, space, WRITTEN)
    before = api.get(path)
    after = api.put(path, before)
    assert after["spec"] == NOW
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert api.put(path, after) == after


def two_versions(*, storage: str, first: Any = OLD) -> list[Any]:
    """v1 knows a color, v2 a mode; both a size."""
    return [custom.a_version(name, schema, storage=name == storage) for name, schema in (("v1", first), ("v2", NEW))]


MOVED = PLAN.kind(versions=two_versions(storage="v1"))


def test_it_keeps_what_the_version_knows_that_it_was_stored_in(api: Api, space: Space) -> None:
    kind = MOVED
    path = kind.path(space, "one")
    api.post(kind.path(space), kind.object("one", spec={"size": 1, "color": "red"}))
    first = custom.with_spec(
        {"size": {"type": "integer"}, "color": {"type": "string"}, "tag": {"type": "string", "default": "new"}}
    )
    versions = two_versions(storage="v2", first=first)
    api.merge(f"{custom.DEFINITIONS}/{kind.name}", {"spec": {"versions": versions}})
    expected = {"size": 1, "color": "red", "tag": "new"}
    wire.eventually(lambda: seen(api, path) == expected, "the change is in force, and nothing is lost by it")
    (item,) = api.get(kind.path(space))["items"]
    assert item["spec"] == expected
    with api.watch(kind.path(space)) as watch:
        event = watch.next()
        assert (event.type, event.object["spec"]) == ("ADDED", expected)
    assert "mode" not in api.get(kind.path(space, "one", version="v2"))["spec"]
