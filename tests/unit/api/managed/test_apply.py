from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.api.managed.things import thing, thing_node

from localpv import errors
from localpv.api import well_known
from localpv.api.managed import apply as applying
from localpv.api.managed import track
from localpv.api.objects import Object
from localpv.api.schema.catalogue import built_in

VERSION = "example.dev/v1"
NODE = thing_node()


def apply(
    live: Object | None, applied: Object, *, by: str = "one", force: bool = False, at: int = 0, **more: Any
) -> Object:
    return applying.apply(
        live,
        applied,
        NODE,
        manager=by,
        force=force,
        time=f"2025-01-01T00:00:{at:02}Z",
        api_version=VERSION,
        kind="Thing",
        **more,
    )


def update(live: Object, spec: dict[str, Any], *, by: str = "editor") -> Object:
    new = copy.deepcopy(live)
    new["spec"] = spec
    track.on_update(new, live, NODE, manager=by, time="2025-01-01T00:00:30Z", api_version=VERSION)
    return new


def owners(obj: Object) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def test_applied_object_is_created_and_owned() -> None:
    made = apply(None, thing({"text": "a"}))

    assert made["spec"] == {"text": "a"}
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": VERSION,
            "time": "2025-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:text": {}}},
        }
    ]


def test_same_configuration_again_changes_nothing() -> None:
    made = apply(None, thing({"text": "a", "named": [{"name": "n", "tags": ["t"]}]}))

    assert apply(made, thing({"text": "a", "named": [{"name": "n", "tags": ["t"]}]}), at=9) == made


def test_field_no_longer_applied_is_removed() -> None:
    made = apply(None, thing({"text": "a", "number": 1, "map": {"k": "v", "l": "w"}}, labels={"x": "y"}))

    assert apply(made, thing({"text": "a", "map": {"l": "w"}}), at=1)["spec"] == {"text": "a", "map": {"l": "w"}}


def test_field_that_somebody_else_applies_too_stays() -> None:
    first = apply(None, thing({"text": "a", "number": 1}))
    shared = apply(first, thing({"number": 1}), by="two")
    left = apply(shared, thing({"text": "a"}))

    assert owners(shared) == {"one": {"f:spec": {"f:number": {}, "f:text": {}}}, "two": {"f:spec": {"f:number": {}}}}
    assert left["spec"] == {"text": "a", "number": 1}
    assert owners(left)["two"] == {"f:spec": {"f:number": {}}}


def test_field_that_nobody_applied_stays() -> None:
    first = apply(None, thing({"struct": {"x": "1"}, "text": "a"}))
    edited = update(first, {"struct": {"x": "1", "y": "2"}, "text": "a"})

    assert apply(edited, thing({"text": "a"}))["spec"] == {"struct": {"y": "2"}, "text": "a"}


def test_list_element_that_goes_takes_along_what_others_changed_in_it() -> None:
    first = apply(None, thing({"named": [{"name": "n", "value": "1"}, {"name": "m"}]}))
    edited = update(first, {"named": [{"name": "n", "value": "2"}, {"name": "m"}]})
    left = apply(edited, thing({"named": [{"name": "m"}]}))

    assert left["spec"] == {"named": [{"name": "m"}]}
    assert owners(left) == {"one": {"f:spec": {"f:named": {'k:{"name":"m"}': {".": {}, "f:name": {}}}}}}


def test_value_that_another_manager_owns_is_a_conflict() -> None:
    first = apply(None, thing({"text": "a", "map": {"k": "v"}}))

    with pytest.raises(errors.Conflict) as caught:
        apply(first, thing({"text": "b"}), by="two")

    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "one": .spec.text'
    assert caught.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.text"}]
    }


def test_all_conflicts_are_told_at_once() -> None:
    first = apply(None, thing({"text": "a", "ports": [{"port": 80, "note": "x"}]}))
    edited = update(first, {"text": "a", "ports": [{"port": 80, "note": "x"}], "number": 1})

    with pytest.raises(errors.Conflict) as caught:
        apply(edited, thing({"text": "b", "number": 2, "ports": [{"port": 80, "note": "y"}]}), by="two")

    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "editor" using example.dev/v1:\n'
        "- .spec.number\n"
        'conflicts with "one":\n'
        "- .spec.text\n"
        '- .spec.ports[port=80,protocol="TCP"].note'
    )
    assert len(caught.value.details["causes"]) == 3


def test_force_takes_the_field_over() -> None:
    first = apply(None, thing({"text": "a", "number": 1}))
    taken = apply(first, thing({"text": "b"}), by="two", force=True, at=1)

    assert taken["spec"] == {"text": "b", "number": 1}
    assert owners(taken) == {"one": {"f:spec": {"f:number": {}}}, "two": {"f:spec": {"f:text": {}}}}


def test_first_apply_to_an_object_without_owners_meets_what_was_there_before() -> None:
    live = thing({"text": "a", "number": 1})

    with pytest.raises(
        errors.Conflict, match=r'conflict with "before-first-apply" using example\.dev/v1: \.spec\.text'
    ):
        apply(live, thing({"text": "b"}))

    assert owners(apply(live, thing({"text": "b"}), force=True)) == {
        "before-first-apply": {"f:spec": {".": {}, "f:number": {}}},
        "one": {"f:spec": {"f:text": {}}},
    }


def test_status_is_applied_beside_the_spec() -> None:
    first = apply(None, thing({"text": "a"}))
    second = apply(
        first, {**thing({"text": "ignored"}), "status": {"phase": "Ready"}}, by="one", subresource="status", at=1
    )

    mine = {entry.get("subresource", ""): entry["fieldsV1"] for entry in second["metadata"]["managedFields"]}
    assert mine == {"": {"f:spec": {"f:text": {}}}, "status": {"f:status": {"f:phase": {}}}}


def test_null_is_owned_and_left_to_the_schema() -> None:
    first = apply(None, thing({"text": "a", "number": 1}))
    second = apply(first, thing({"text": None, "number": 1}))

    assert second["spec"] == {"number": 1, "text": None}
    assert owners(second) == {"one": {"f:spec": {"f:number": {}, "f:text": {}}}}


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ("abc", "", "abc"),
        ("", "abc", "abc"),
        ("abc", "b", "abc"),
        ("abc", "cba", "cba"),
        ("abc", "x", "abcx"),
        ("abc", "xb", "axbc"),
        ("abc", "bx", "abcx"),
        ("abcd", "dxa", "bcdxa"),
        ("abcd", "xdyb", "acxdyb"),
    ],
)
def test_lists_keep_the_order_of_the_applied_and_the_place_of_the_rest(live: str, applied: str, merged: str) -> None:
    made = apply(
        thing({"set": list(live), "named": [{"name": c} for c in live]}),
        thing({"set": list(applied), "named": [{"name": c} for c in applied]}),
    )

    assert "".join(made["spec"]["set"]) == merged
    assert "".join(item["name"] for item in made["spec"]["named"]) == merged


@pytest.mark.parametrize(
    ("applied", "message"),
    [
        (thing({"unknown": 1}), ".spec.unknown: field not declared in schema"),
        (thing({"text": 1}), ".spec.text: expected string, got 1"),
        (thing({"number": True}), ".spec.number: expected numeric (int or float), got true"),
        (thing({"struct": []}), ".spec.struct: expected map, got []"),
        (thing({"map": "x"}), '.spec.map: expected map, got "x"'),
        (thing({"set": {}}), ".spec.set: expected list, got {}"),
        (thing({"whole": {"z": 1}}), ".spec.whole.z: field not declared in schema"),
        (thing({"list": [1]}), ".spec.list[0]: expected string, got 1"),
        (thing({"set": ["a", "a"]}), '.spec.set: duplicate entries for key [="a"]'),
        (
            thing({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
            '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
        ),
        (thing({"named": [{"value": "v"}]}), ".spec.named: element 0: none of the key fields is set: name"),
        (thing({"named": ["n"]}), ".spec.named: element 0: an element of a list with keys is an object"),
        (thing({"set": [{}]}), ".spec.set: element 0: an element of a set is a single value"),
    ],
)
def test_configuration_that_does_not_fit_the_schema_is_refused(applied: Object, message: str) -> None:
    with pytest.raises(applying.NotOfSchema) as caught:
        apply(None, applied)

    assert caught.value.message == f"failed to create typed patch object (/it; example.dev/v1, Kind=Thing): {message}"
    assert (caught.value.code, caught.value.reason) == (500, "")


def test_everything_that_does_not_fit_is_told_at_once() -> None:
    with pytest.raises(applying.NotOfSchema, match=r"errors:\n  \.spec\.text: .*\n  \.spec\.other: "):
        apply(None, thing({"text": 1, "other": 2}))


@pytest.mark.parametrize(
    ("applied", "message"),
    [
        (thing(managedFields=[]), "metadata.managedFields must be nil"),
        ({**thing(), "kind": "Other"}, "invalid object type: example.dev/v1, Kind=Other"),
        ({**thing(), "apiVersion": "v1"}, "invalid object type: /v1, Kind=Thing"),
        ({}, "invalid object type: /, Kind="),
    ],
)
def test_configuration_of_another_kind_is_a_bad_request(applied: Object, message: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        apply(None, applied)

    assert caught.value.message == message


def test_metadata_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(applying.NotOfSchema, match="metadata: expected map"):
        apply(None, {**thing(), "metadata": "x"})


WORDS = st.sampled_from("abc")
# Lists of elements are never empty: those are owned by nobody, so the second apply would bring them back.
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "text": WORDS,
        "number": st.integers(0, 2),
        "struct": st.dictionaries(st.sampled_from("xy"), WORDS),
        "whole": st.dictionaries(st.sampled_from("xy"), WORDS),
        "map": st.dictionaries(WORDS, WORDS),
        "list": st.lists(WORDS, max_size=3),
        "set": st.lists(WORDS, unique=True, min_size=1),
        "named": st.lists(
            st.fixed_dictionaries(
                {"name": WORDS}, optional={"value": WORDS, "tags": st.lists(WORDS, unique=True, min_size=1)}
            ),
            unique_by=lambda item: item["name"],
            min_size=1,
        ),
        "free": st.dictionaries(
            WORDS,
            st.recursive(
                WORDS | st.booleans() | st.integers(0, 1),
                lambda inner: st.dictionaries(WORDS, inner, max_size=2),
                max_leaves=3,
            ),
            max_size=2,
        ),
    },
)


@given(SPECS, SPECS, SPECS)
def test_apply_is_idempotent_and_shares_nothing(first: Any, second: Any, third: Any) -> None:
    live = apply(apply(None, thing(first), by="one"), thing(second), by="two", force=True)
    before = copy.deepcopy(live)

    once = apply(live, thing(third), by="one", force=True)
    assert live == before
    # A struct that lost everything is null, and what becomes of that is for the schema to say.
    assume("null" not in json.dumps(once))
    twice = apply(once, thing(third), by="one", force=True, at=9)
    track.keep_times(twice, once)
    assert twice == once


@given(SPECS, SPECS)
def test_forced_apply_wins_every_leaf(first: Any, second: Any) -> None:
    won = apply(apply(None, thing(first), by="one"), thing(second), by="two", force=True)

    def holds(value: Any, wanted: Any) -> bool:
        if isinstance(wanted, dict) and isinstance(value, dict):
            return all(key in value and holds(value[key], wanted[key]) for key in wanted)
        if isinstance(wanted, list) and isinstance(value, list):
            return all(any(holds(one, item) for one in value) for item in wanted)
        return bool(value == wanted)

    assert holds(won["spec"], second)


@given(SPECS)
def test_applying_nothing_gives_everything_back(spec: Any) -> None:
    spec.pop("text", None)
    live = apply(None, thing({"text": "kept"}), by="one")
    both = apply(live, thing(spec), by="two", force=True)

    left = apply(both, thing(), by="two")

    assert list(owners(left)) == ["one"]
    assert {key: value for key, value in left["spec"].items() if value} == {"text": "kept"}


ANNOTATED = built_in().node("io.k8s.api.core.v1.ConfigMap")
TIME = "2025-01-01T00:00:00Z"


def config_map(data: Any, **annotations: str) -> Object:
    metadata: Object = {"name": "it"}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def client_side(data: dict[str, str], last: str) -> Object:
    made = config_map(data, **{well_known.LAST_APPLIED: last})
    track.on_update(made, None, ANNOTATED, manager="kubectl-client-side-apply", time=TIME, api_version="v1")
    return made


def server_side(live: Object, data: dict[str, str], manager: str = "kubectl") -> Object:
    return applying.apply(live, config_map(data), ANNOTATED, manager=manager, force=False, time=TIME, api_version="v1")


def test_kubectl_takes_over_what_client_side_apply_set() -> None:
    live = client_side({"a": "1"}, json.dumps(config_map({"a": "1"})))

    moved = server_side(live, {"a": "2"})

    assert moved["data"] == {"a": "2"}
    assert json.loads(moved["metadata"]["annotations"][well_known.LAST_APPLIED]) == config_map({"a": "2"})


def test_other_managers_meet_the_conflict() -> None:
    live = client_side({"a": "1"}, json.dumps(config_map({"a": "1"})))

    with pytest.raises(errors.Conflict):
        server_side(live, {"a": "2"}, manager="somebody")


@pytest.mark.parametrize(
    "last",
    [
        "{",
        "[]",
        json.dumps(config_map({"a": "0"})),
        json.dumps({**config_map({"a": "1"}), "apiVersion": "v0"}),
        json.dumps(config_map(["a"])),
    ],
    ids=["not json", "not an object", "changed since", "another version", "not of the schema"],
)
def test_annotation_that_does_not_tell_the_live_value_excuses_nothing(last: str) -> None:
    with pytest.raises(errors.Conflict, match=r"\.data\.a"):
        server_side(client_side({"a": "1"}, last), {"a": "2"})


def test_annotation_that_would_not_fit_is_dropped() -> None:
    live = client_side({"a": "1"}, json.dumps(config_map({"a": "1"})))

    moved = server_side(live, {"a": "x" * 300_000})

    assert well_known.LAST_APPLIED not in moved["metadata"]["annotations"]
