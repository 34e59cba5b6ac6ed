"""Reading: get and list, selectors, pages, resource versions, and the other shapes an object can be asked for in."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api


def _fill(api: Api, space: Space, count: int = 5) -> list[Any]:
    return [
        api.post(space.core("secrets"), builders.secret(f"item-{index}", labels={"n": str(index)}))
        for index in range(count)
    ]


def _names(listing: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


def test_get_returns_what_create_returned(api: Api, space: Space) -> None:
    made = api.post(space.core("secrets"), builders.secret("one"))
    assert api.get(space.core("secrets", "one")) == made


def test_missing_object_is_a_status(api: Api, space: Space) -> None:
    status = api.get(space.core("secrets", "missing"), expect=404)
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'secrets "missing" not found',
        "reason": "NotFound",
        "details": {"name": "missing", "kind": "secrets"},
        "code": 404,
    }


def test_get_of_a_future_resource_version_times_out(api: Api, space: Space) -> None:
    made = api.post(space.core("secrets"), builders.secret("one"))
    future = str(int(made["metadata"]["resourceVersion"]) + 1_000_000)
    status = api.get(space.core("secrets", "one"), expect=504, resourceVersion=future)
    assert status["reason"] == "Timeout"
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert "Too large resource version" in status["message"]


def test_list_is_ordered_by_name_and_items_carry_no_kind(api: Api, space: Space) -> None:
    for name in ("b", "a", "c"):
        api.post(space.core("secrets"), builders.secret(name))
    listing = api.get(space.core("secrets"))
    assert (listing["kind"], listing["apiVersion"]) == ("SecretList", "v1")
    assert _names(listing) == ["a", "b", "c"]
    assert all("kind" not in item and "apiVersion" not in item for item in listing["items"])


def test_list_of_a_namespace_that_does_not_exist_is_empty(api: Api) -> None:
    listing = api.get(Space(builders.unique("missing")).core("secrets"))
    assert listing["items"] == []
    assert int(listing["metadata"]["resourceVersion"]) > 0


def test_list_version_is_at_least_that_of_every_item(api: Api, space: Space) -> None:
    _fill(api, space, 2)
    listing = api.get(space.core("secrets"))
    versions = [int(item["metadata"]["resourceVersion"]) for item in listing["items"]]
    assert int(listing["metadata"]["resourceVersion"]) >= max(versions)


def test_list_across_namespaces(api: Api, space: Space) -> None:
    other = Space(api.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"])
    label = builders.unique("label")
    for place in (space, other):
        api.post(place.core("secrets"), builders.secret("same", labels={"test": label}))
    listing = api.get("/api/v1/secrets", labelSelector=f"test={label}")
    assert sorted(item["metadata"]["namespace"] for item in listing["items"]) == sorted([space.name, other.name])


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("n=1", ["item-1"]),
        ("n==1", ["item-1"]),
        ("n!=1", ["item-0", "item-2"]),
        ("n in (0,2)", ["item-0", "item-2"]),
        ("n notin (0,2)", ["item-1"]),
        ("n", ["item-0", "item-1", "item-2"]),
        ("!n", []),
        ("other!=1", ["item-0", "item-1", "item-2"]),
        ("n>0", ["item-1", "item-2"]),
        ("n<1", ["item-0"]),
        ("n,n!=2", ["item-0", "item-1"]),
        ("n=1,other=1", []),
    ],
)
def test_label_selectors(api: Api, space: Space, selector: str, names: list[str]) -> None:
    _fill(api, space, 3)
    assert _names(api.get(space.core("secrets"), labelSelector=selector)) == names


@pytest.mark.parametrize("selector", ["n in", "n in (", "a b", "=1", "n=1,,", "-n=1"])
def test_malformed_label_selector_is_a_bad_request(api: Api, space: Space, selector: str) -> None:
    status = api.get(space.core("secrets"), labelSelector=selector, expect=400)
    assert status["reason"] == "BadRequest"


def test_field_selectors_of_metadata(api: Api, space: Space) -> None:
    _fill(api, space, 3)
    assert _names(api.get(space.core("secrets"), fieldSelector="metadata.name=item-1")) == ["item-1"]
    assert _names(api.get(space.core("secrets"), fieldSelector="metadata.name!=item-1")) == ["item-0", "item-2"]
    both = f"metadata.name=item-1,metadata.namespace={space.name}"
    assert _names(api.get("/api/v1/secrets", fieldSelector=both)) == ["item-1"]


def test_unknown_field_selector_is_refused_by_name(api: Api, space: Space) -> None:
    status = api.get(space.core("configmaps"), fieldSelector="data.a=1", expect=400)
    assert status["message"] == '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
    status = api.get(space.core("pods"), fieldSelector="spec.priority=1", expect=400)
    assert "spec.priority" in status["message"]


def test_field_selectors_of_pods(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("here", spec={"nodeName": "node-1"}))
    api.post(space.core("pods"), builders.pod("nowhere"))
    pods = space.core("pods")
    assert _names(api.get(pods, fieldSelector="spec.nodeName=node-1")) == ["here"]
    assert _names(api.get(pods, fieldSelector="spec.nodeName=")) == ["nowhere"]
    assert _names(api.get(pods, fieldSelector="status.phase=Pending")) == ["here", "nowhere"]
    assert _names(api.get(pods, fieldSelector="status.phase!=Pending")) == []
    assert _names(api.get(pods, fieldSelector="spec.restartPolicy=Always")) == ["here", "nowhere"]


def test_field_selectors_of_other_kinds(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("opaque"))
    assert _names(api.get(space.core("secrets"), fieldSelector="type=Opaque")) == ["opaque"]
    api.post(space.core("events"), builders.core_event(space.name, "told"))
    for selector in ("involvedObject.name=some", "reason=Tested", "type=Normal", "involvedObject.kind=ConfigMap"):
        assert _names(api.get(space.core("events"), fieldSelector=selector)) == ["told"]


def test_pages_carry_a_token_and_what_remains(api: Api, space: Space) -> None:
    _fill(api, space, 5)
    first = api.get(space.core("secrets"), limit=2)
    assert _names(first) == ["item-0", "item-1"]
    assert first["metadata"]["remainingItemCount"] == 3
    second = api.get(space.core("secrets"), limit=2, **{"continue": first["metadata"]["continue"]})
    assert _names(second) == ["item-2", "item-3"]
    assert second["metadata"]["remainingItemCount"] == 1
    third = api.get(space.core("secrets"), limit=2, **{"continue": second["metadata"]["continue"]})
    assert _names(third) == ["item-4"]
    assert "continue" not in third["metadata"]
    assert "remainingItemCount" not in third["metadata"]


def test_pages_show_one_moment(api: Api, space: Space) -> None:
    _fill(api, space, 3)
    first = api.get(space.core("secrets"), limit=1)
    api.post(space.core("secrets"), builders.secret("item-1a"))
    api.delete(space.core("secrets", "item-2"))
    rest = api.get(space.core("secrets"), **{"continue": first["metadata"]["continue"]})
    assert _names(rest) == ["item-1", "item-2"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_pages_of_a_selection_do_not_say_what_remains(api: Api, space: Space) -> None:
    _fill(api, space, 4)
    first = api.get(space.core("secrets"), limit=1, labelSelector="n!=1")
    assert _names(first) == ["item-0"]
    assert "remainingItemCount" not in first["metadata"]
    rest = api.get(space.core("secrets"), labelSelector="n!=1", **{"continue": first["metadata"]["continue"]})
    assert _names(rest) == ["item-2", "item-3"]


def test_malformed_continue_token_is_a_bad_request(api: Api, space: Space) -> None:
    status = api.get(space.core("secrets"), limit=1, expect=400, **{"continue": "nonsense"})
    assert "continue key is not valid" in status["message"]


def test_continue_excludes_a_resource_version(api: Api, space: Space) -> None:
    _fill(api, space, 2)
    first = api.get(space.core("secrets"), limit=1)
    token = first["metadata"]["continue"]
    version = first["metadata"]["resourceVersion"]
    status = api.get(space.core("secrets"), limit=1, resourceVersion=version, expect=400, **{"continue": token})
    assert status["reason"] == "BadRequest"


def test_exact_version_shows_the_past(api: Api, space: Space) -> None:
    _fill(api, space, 2)
    before = api.get(space.core("secrets"))["metadata"]["resourceVersion"]
    api.delete(space.core("secrets", "item-0"))
    past = api.get(space.core("secrets"), resourceVersion=before, resourceVersionMatch="Exact", limit=10)
    assert _names(past) == ["item-0", "item-1"]
    assert past["metadata"]["resourceVersion"] == before
    assert _names(api.get(space.core("secrets"))) == ["item-1"]


def test_not_older_than_sees_what_was_written(api: Api, space: Space) -> None:
    version = _fill(api, space, 2)[-1]["metadata"]["resourceVersion"]
    match = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    assert _names(api.get(space.core("secrets"), **match)) == ["item-0", "item-1"]


def test_list_of_a_future_version_times_out(api: Api, space: Space) -> None:
    future = str(int(_fill(api, space, 1)[0]["metadata"]["resourceVersion"]) + 1_000_000)
    status = api.get(space.core("secrets"), resourceVersion=future, expect=504)
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("params", "code", "field"),
    [
        ({"resourceVersionMatch": "Exact"}, 422, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Newest", "resourceVersion": "5"}, 422, "resourceVersionMatch"),
    ],
)
def test_match_needs_a_version(api: Api, space: Space, params: dict[str, str], code: int, field: str) -> None:
    status = api.get(space.core("secrets"), expect=code, **params)
    assert status["reason"] == "Invalid"
    assert field in {path for _, path in wire.causes(status)}


def test_resource_version_must_be_a_number(api: Api, space: Space) -> None:
    status = api.get(space.core("secrets"), resourceVersion="abc", expect=400)
    assert 'resourceVersion: Invalid value: "abc"' in status["message"]


def test_list_as_table(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one", data={"a": "MQ==", "b": "Mg=="}))
    answer = api.send("GET", space.core("secrets"), accept=wire.TABLE)
    table = answer.body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]
    name = table["columnDefinitions"][0]
    assert (name["type"], name["format"], name["priority"]) == ("string", "name", 0)
    (row,) = table["rows"]
    assert row["cells"][:3] == ["one", "Opaque", 2]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "one"
    assert int(table["metadata"]["resourceVersion"]) > 0


def test_table_can_carry_whole_objects_or_none(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one", data={"a": "MQ=="}))
    whole = api.get(space.core("secrets"), accept=wire.TABLE, includeObject="Object")
    assert whole["rows"][0]["object"]["data"] == {"a": "MQ=="}
    none = api.get(space.core("secrets"), accept=wire.TABLE, includeObject="None")
    assert none["rows"][0]["object"] is None


def test_single_object_as_table(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one"))
    table = api.get(space.core("secrets", "one"), accept=wire.TABLE)
    assert [row["cells"][0] for row in table["rows"]] == ["one"]


def test_partial_metadata_of_one_and_of_many(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one", data={"a": "MQ=="}, labels={"b": "2"}))
    one = api.get(space.core("secrets", "one"), accept=wire.PARTIAL_OBJECT)
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"]["labels"] == {"b": "2"}
    assert "data" not in one
    many = api.get(space.core("secrets"), accept=wire.PARTIAL_LIST)
    assert (many["kind"], many["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert _names(many) == ["one"]
    assert all("data" not in item for item in many["items"])


def test_first_acceptable_shape_wins(api: Api, space: Space) -> None:
    listing = api.get(space.core("secrets"), accept=f"{wire.TABLE},application/json")
    assert listing["kind"] == "Table"


def test_pretty_output_is_indented(api: Api, space: Space) -> None:
    assert b"\n  " in api.send("GET", space.core("secrets"), pretty="true").raw


def test_yaml_output(api: Api, space: Space) -> None:
    answer = api.send("GET", space.core("secrets"), accept="application/yaml")
    assert answer.headers["content-type"] == "application/yaml"
    assert b"kind: SecretList" in answer.raw
