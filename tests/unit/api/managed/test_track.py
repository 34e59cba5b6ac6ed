"""Owners after create, update and patch."""

from __future__ import annotations

import copy
from typing import Any

from tests.unit.api.managed.things import thing, thing_node

from localpv.api.managed import entries, track
from localpv.api.objects import Object
from localpv.api.schema.catalogue import built_in
from localpv.api.schema.node import ListKind, Node

VERSION = "example.dev/v1"
NODE = thing_node()


def owners(obj: Object) -> dict[str, Any]:
    return {
        entry["manager"] + ("/" + entry["subresource"] if "subresource" in entry else ""): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


def write(
    new: Object,
    old: Object | None = None,
    *,
    by: str = "someone",
    at: str = "2025-01-01T00:00:00Z",
    node: Node = NODE,
    **more: Any,
) -> Object:
    new = copy.deepcopy(new)
    if old is not None and "managedFields" in old["metadata"]:
        new["metadata"].setdefault("managedFields", old["metadata"]["managedFields"])
    track.on_update(new, old, node, manager=by, time=at, api_version=VERSION, **more)
    return new


def test_creator_owns_every_field_and_every_container() -> None:
    made = write(thing({"struct": {"x": "1"}, "named": [{"name": "n"}], "set": []}, labels={"a": "b"}))

    assert made["metadata"]["managedFields"] == [
        {
            "manager": "someone",
            "operation": "Update",
            "apiVersion": VERSION,
            "time": "2025-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    ".": {},
                    "f:named": {".": {}, 'k:{"name":"n"}': {".": {}, "f:name": {}}},
                    "f:set": {},
                    "f:struct": {".": {}, "f:x": {}},
                },
            },
        }
    ]


def test_object_without_anything_to_own_has_no_owners() -> None:
    assert "managedFields" not in write(thing())["metadata"]


def test_changed_fields_change_hands_and_removed_ones_leave_all() -> None:
    first = write(thing({"text": "a", "number": 1, "map": {"k": "v"}}), by="one")
    second = write(thing({"text": "b", "map": {"k": "v", "l": "w"}}), first, by="two")

    assert owners(second) == {
        "one": {"f:spec": {".": {}, "f:map": {".": {}, "f:k": {}}}},
        "two": {"f:spec": {"f:map": {"f:l": {}}, "f:text": {}}},
    }


def test_owner_of_nothing_is_gone() -> None:
    first = write(thing({"text": "a"}), by="one")
    second = write(thing({"text": "b"}), first, by="two")
    third = write(thing(), second, by="three")

    assert owners(second) == {"one": {"f:spec": {}}, "two": {"f:spec": {"f:text": {}}}}
    assert "managedFields" not in third["metadata"]


def test_write_that_changes_nothing_leaves_owners_and_times() -> None:
    first = write(thing({"text": "a"}), by="one")
    second = write(thing({"text": "a"}), first, by="two", at="2025-01-01T00:00:09Z")

    assert second["metadata"]["managedFields"] == first["metadata"]["managedFields"]


def test_second_write_of_a_manager_joins_its_first() -> None:
    first = write(thing({"text": "a"}), by="one")
    second = write(thing({"text": "a", "number": 1}), first, by="one", at="2025-01-01T00:00:09Z")

    (entry,) = second["metadata"]["managedFields"]
    assert entry["time"] == "2025-01-01T00:00:09Z"
    assert entry["fieldsV1"] == {"f:spec": {".": {}, "f:number": {}, "f:text": {}}}
    assert first["metadata"]["managedFields"][0]["time"] == "2025-01-01T00:00:00Z", "the old object stays as it was"


def test_status_belongs_to_those_who_write_through_status() -> None:
    first = write({**thing({"text": "a"}), "status": {"phase": "New"}}, by="one")
    second = write({**thing({"text": "b"}), "status": {"phase": "Old"}}, first, by="two", subresource="status")

    assert owners(second) == {
        "one": {"f:spec": {".": {}, "f:text": {}}},
        "two/status": {"f:status": {"f:phase": {}}},
    }


def test_status_of_a_kind_without_the_subresource_is_a_field_like_any_other() -> None:
    made = write({**thing(), "status": {"phase": "New"}}, status_subresource=False)

    assert owners(made) == {"someone": {"f:status": {".": {}, "f:phase": {}}}}


def test_scaling_has_no_time() -> None:
    first = write(thing({"number": 1, "text": "a"}), by="one")
    second = write(thing({"number": 2, "text": "a"}), first, by="kubectl", subresource="scale")

    assert [entry.get("time", "none") for entry in second["metadata"]["managedFields"]] == [
        "none",
        "2025-01-01T00:00:00Z",
    ]


def test_owners_can_be_forgotten_and_are_not_kept_from_then_on() -> None:
    first = write(thing({"text": "a"}))
    resets: list[list[Object]] = [[], [{}]]
    for reset in resets:
        forgotten = write(thing({"text": "b"}, managedFields=reset), first)
        assert "managedFields" not in forgotten["metadata"]
        assert "managedFields" not in write(thing({"text": "c"}), forgotten)["metadata"]


def test_owners_cannot_be_changed_through_a_subresource() -> None:
    first = write(thing({"text": "a"}))
    second = write(thing({"text": "a"}, managedFields=[]), first, subresource="status")

    assert second["metadata"]["managedFields"] == first["metadata"]["managedFields"]


def test_client_that_drops_or_garbles_owners_does_not_lose_them() -> None:
    first = write(thing({"text": "a"}))
    garbled: list[Any] = [
        [{"manager": "x"}],
        [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2", "fieldsV1": {}}],
        [{"operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}}],
        [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"oops": {}}}],
        [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": [], "manager": 1}],
        ["x"],
    ]
    for given in (None, *garbled):
        second = write(thing({"text": "a"}, managedFields=given), first)
        assert second["metadata"]["managedFields"] == first["metadata"]["managedFields"]


def test_client_may_hand_fields_to_another_manager() -> None:
    first = write(thing({"text": "a"}), by="one")
    moved = copy.deepcopy(first)
    moved["metadata"]["managedFields"][0].update(manager="two", operation="Apply")

    second = write(moved, first, by="three")

    assert [(entry["manager"], entry["operation"]) for entry in second["metadata"]["managedFields"]] == [
        ("two", "Apply")
    ]


def test_no_more_than_ten_updaters_are_kept() -> None:
    obj = write(thing({"map": {}}), by="m00", at="2025-01-01T00:00:00Z")
    for number in range(1, 14):
        keys = {f"k{i:02}": "v" for i in range(1, number + 1)}
        obj = write(thing({"map": keys}), obj, by=f"m{number:02}", at=f"2025-01-01T00:00:{number:02}Z")

    kept = obj["metadata"]["managedFields"]
    assert len(kept) == entries.MOST_UPDATERS
    assert kept[0]["manager"] == "ancient-changes"
    assert kept[0]["time"] == "2025-01-01T00:00:04Z"
    assert kept[0]["fieldsV1"]["f:spec"]["f:map"] == {".": {}, **{f"f:k0{i}": {} for i in range(1, 5)}}
    assert [entry["manager"] for entry in kept[1:]] == [f"m{number:02}" for number in range(5, 14)]


def test_elements_with_the_same_name_are_owned_as_one() -> None:
    twice = [{"name": "n", "value": "1"}, {"name": "n", "value": "2"}]
    first = write(thing({"named": twice}), by="one")
    second = write(thing({"named": [twice[0], {"name": "n", "value": "3"}]}), first, by="two")
    third = write(thing({"named": twice[:1]}), second, by="three")

    assert owners(first)["one"]["f:spec"]["f:named"] == {".": {}, 'k:{"name":"n"}': {}}
    assert owners(second)["two"] == {"f:spec": {"f:named": {'k:{"name":"n"}': {}}}}
    assert owners(third)["three"]["f:spec"]["f:named"] == {'k:{"name":"n"}': {".": {}, "f:name": {}, "f:value": {}}}
    assert "two" not in owners(third)


def test_true_is_not_one_where_there_is_no_schema() -> None:
    first = write(thing({"free": {"a": {"b": 1}}}), by="one")
    second = write(thing({"free": {"a": {"b": True}}}), first, by="two")

    assert owners(second)["two"] == {"f:spec": {"f:free": {"f:a": {"f:b": {}}}}}


def test_object_that_turns_into_a_value_loses_its_fields() -> None:
    first = write(thing({"free": {"a": {"b": 1}}}), by="one")
    second = write(thing({"free": {"a": 1}}), first, by="two")
    third = write(thing({"free": {"a": {"c": 1}}}), second, by="three")

    assert owners(second) == {
        "one": {"f:spec": {".": {}, "f:free": {}}},
        "two": {"f:spec": {"f:free": {"f:a": {}}}},
    }
    assert owners(third)["three"] == {"f:spec": {"f:free": {"f:a": {".": {}, "f:c": {}}}}}


def test_owner_of_a_part_owns_the_whole_when_the_schema_makes_it_atomic() -> None:
    first = write(thing({"map": {"k": "v"}, "set": ["a"]}), by="one")
    stricter = thing_node()
    stricter.fields["spec"].fields["map"].atomic = True
    stricter.fields["spec"].fields["set"].list_kind = ListKind.ATOMIC

    second = write(thing({"map": {"k": "v"}, "set": ["a"], "text": "t"}), first, by="two", node=stricter)

    assert owners(second)["one"] == {"f:spec": {".": {}, "f:map": {}, "f:set": {}}}


def test_empty_lists_and_maps_of_kubernetes_own_kinds_are_not_there() -> None:
    node = built_in().node("io.k8s.api.core.v1.ConfigMap")
    made = write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {}}, "data": {"a": "b"}}, node=node)
    emptied = write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {}}, made, node=node)

    assert owners(made) == {"someone": {"f:data": {".": {}, "f:a": {}}}}
    assert "managedFields" not in emptied["metadata"]


def test_structs_held_by_value_are_there_even_when_left_out() -> None:
    node = built_in().node("io.k8s.api.core.v1.Pod")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = write(pod, node=node)
    with_empty = copy.deepcopy(made)
    with_empty["spec"]["containers"][0]["resources"] = {}

    assert owners(made) == {
        "someone": {
            "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}}}
        }
    }
    assert owners(write(with_empty, made, by="two", node=node)) == owners(made)


def test_only_a_new_time_is_taken_back() -> None:
    old = write(thing({"text": "a"}))
    same, other = copy.deepcopy(old), copy.deepcopy(old)
    for obj in (same, other):
        obj["metadata"]["managedFields"][0]["time"] = "2025-01-01T00:00:09Z"
    other["spec"]["text"] = "b"

    track.keep_times(same, old)
    track.keep_times(other, old)

    assert same == old
    assert other["metadata"]["managedFields"][0]["time"] == "2025-01-01T00:00:09Z"
