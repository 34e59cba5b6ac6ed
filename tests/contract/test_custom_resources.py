"""Custom resource definitions and the kinds that come from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract import builders, custom, wire
from tests.contract.custom import DEFINITIONS, Kind
from tests.contract.spaces import Space
from tests.contract.wire import Api


def _object(properties: Any, **more: Any) -> Any:
    return {"type": "object", "properties": properties, **more}


def _with_spec(properties: Any, **more: Any) -> Any:
    return _object(
        {
            "spec": _object(properties, **more),
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        }
    )


PLANNED: list[builders.Object] = []
"""A real API server lets the first request to a new kind wait two seconds, so all kinds are defined at once."""


def _plan(schema: Any = custom.SIZE, *, versions: list[Any] | None = None, **version: Any) -> Kind:
    kind = Kind()
    PLANNED.append(kind.definition(schema, versions=versions, **version))
    return kind


@pytest.fixture(scope="module", autouse=True)
def _planned_kinds(target: wire.Target) -> Iterator[None]:
    client = wire.Api(target, target.token)
    try:
        custom.define_all(client, PLANNED)
        yield
    finally:
        client.clean_up()
        client.close()


def test_definition_becomes_established_and_is_served(api: Api, space: Space) -> None:
    kind = Kind()
    made = custom.define(api, kind.definition())
    assert custom.condition(made, "NamesAccepted") == "True"
    assert made["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["spec"]["conversion"] == {"strategy": "None"}
    created = api.post(kind.path(space), kind.object(spec={"size": 3}), expect=201)
    assert created["metadata"]["generation"] == 1
    assert created["spec"] == {"size": 3}
    listing = api.get(kind.path(space))
    assert (listing["kind"], listing["apiVersion"]) == ("WidgetList", f"{kind.group}/v1")
    assert [item["kind"] for item in listing["items"]] == ["Widget"]


def test_kind_appears_in_discovery(api: Api) -> None:
    kind = Kind(cluster_scoped=True)
    definition = kind.definition(subresources={"status": {}})
    definition["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    custom.define(api, definition)
    wire.eventually(lambda: api.send("GET", f"/apis/{kind.group}/v1").code == 200, "the group is discovered")
    listed = {entry["name"]: entry for entry in api.get(f"/apis/{kind.group}/v1")["resources"]}
    entry = listed["widgets"]
    assert (entry["kind"], entry["namespaced"], entry["singularName"]) == ("Widget", False, "widget")
    assert (entry["shortNames"], entry["categories"]) == (["wd"], ["all"])
    assert set(listed) == {"widgets", "widgets/status"}
    group = api.get(f"/apis/{kind.group}")
    assert group["preferredVersion"]["version"] == "v1"


def test_name_must_be_plural_and_group(api: Api) -> None:
    definition = Kind().definition()
    definition["metadata"]["name"] = "wrong.localpv.dev"
    status = api.post(DEFINITIONS, definition, expect=422)
    assert ("FieldValueInvalid", "metadata.name") in wire.causes(status)


def test_schema_must_be_structural(api: Api) -> None:
    status = api.post(DEFINITIONS, Kind().definition({"properties": {"spec": {"type": "object"}}}), expect=422)
    fields = {field for _, field in wire.causes(status)}
    assert any(field.endswith("openAPIV3Schema.type") for field in fields)


def test_exactly_one_version_is_stored(api: Api) -> None:
    versions = [custom.a_version("v1"), custom.a_version("v2")]
    status = api.post(DEFINITIONS, Kind().definition(versions=versions), expect=422)
    assert any(field == "spec.versions" for _, field in wire.causes(status))


PRUNED = _plan()


def test_unknown_fields_are_pruned(api: Api, space: Space) -> None:
    kind = PRUNED
    answer = api.send("POST", kind.path(space), kind.object(spec={"size": 1, "color": "red"}, other=1))
    assert answer.code == 201
    assert answer.body["spec"] == {"size": 1}
    assert "other" not in answer.body
    assert 'unknown field \\"spec.color\\"' in answer.warnings
    strict = kind.object("two", spec={"color": "red"})
    status = api.post(kind.path(space), strict, fieldValidation="Strict", expect=400)
    assert 'strict decoding error: unknown field "spec.color"' in status["message"]


FREE = _plan(_object({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}))


def test_unknown_fields_stay_where_the_schema_says_so(api: Api, space: Space) -> None:
    kind = FREE
    assert api.post(kind.path(space), kind.object(spec={"any": {"thing": 1}}))["spec"] == {"any": {"thing": 1}}


DEFAULTED = _plan(
    _with_spec(
        {
            "size": {"type": "integer", "default": 5},
            "inner": _object({"on": {"type": "boolean", "default": True}}),
            "list": {"type": "array", "items": _object({"mode": {"type": "string", "default": "a"}})},
        }
    )
)


def test_defaults_are_filled_in(api: Api, space: Space) -> None:
    kind = DEFAULTED
    made = api.post(kind.path(space), kind.object(spec={"inner": {}, "list": [{}, {"mode": "b"}]}))
    assert made["spec"] == {"size": 5, "inner": {"on": True}, "list": [{"mode": "a"}, {"mode": "b"}]}
    # A default below a parent that is absent does not call the parent into being.
    assert "spec" not in api.post(kind.path(space), kind.object("two"))


VALUES: list[tuple[Any, Any, str]] = [
    ({"type": "integer", "minimum": 3}, 2, "FieldValueInvalid"),
    ({"type": "integer", "maximum": 3, "exclusiveMaximum": True}, 3, "FieldValueInvalid"),
    ({"type": "integer", "multipleOf": 4}, 6, "FieldValueInvalid"),
    ({"type": "integer"}, "text", "FieldValueTypeInvalid"),
    ({"type": "string", "enum": ["a", "b"]}, "c", "FieldValueNotSupported"),
    ({"type": "string", "pattern": "^x+$"}, "y", "FieldValueInvalid"),
    ({"type": "string", "maxLength": 2}, "abc", "FieldValueTooLong"),
    ({"type": "string", "minLength": 2}, "a", "FieldValueInvalid"),
    ({"type": "string", "format": "date-time"}, "yesterday", "FieldValueTypeInvalid"),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"], "FieldValueTooMany"),
    ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [], "FieldValueInvalid"),
    (
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ["a", "a"],
        "FieldValueDuplicate",
    ),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {}, "FieldValueRequired"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "x"}, "FieldValueTypeInvalid"),
    ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, "FieldValueInvalid"),
    ({"x-kubernetes-int-or-string": True}, 1.5, "FieldValueTypeInvalid"),
]
VALIDATED = _plan(_with_spec({f"value{index}": schema for index, (schema, _, _) in enumerate(VALUES)}))


@pytest.mark.parametrize("index", range(len(VALUES)))
def test_values_are_validated(api: Api, space: Space, index: int) -> None:
    _, value, reason = VALUES[index]
    body = VALIDATED.object(spec={f"value{index}": value})
    status = api.post(VALIDATED.path(space), body, expect=422)
    assert status["reason"] == "Invalid"
    assert (status["details"]["group"], status["details"]["kind"]) == (VALIDATED.group, "Widget")
    assert any(found == reason and field.startswith(f"spec.value{index}") for found, field in wire.causes(status)), (
        status
    )


def test_null_is_dropped_where_the_schema_does_not_allow_it(api: Api, space: Space) -> None:
    assert api.post(VALIDATED.path(space), VALIDATED.object(spec={"value4": None}))["spec"] == {}


def test_rules_in_cel_are_evaluated_or_refused_by_name(api: Api, space: Space) -> None:
    kind = Kind()
    rules = [{"rule": "self.low <= self.high", "message": "low must not exceed high"}]
    properties = {"low": {"type": "integer"}, "high": {"type": "integer"}}
    definition = kind.definition(_with_spec(properties, **{"x-kubernetes-validations": rules}))
    if (answer := api.send("POST", DEFINITIONS, definition, dryRun="All")).code == 422:
        # A server without CEL must not take a rule that it would not keep.
        ((reason, field),) = wire.causes(answer.body)
        assert (reason, field.endswith("x-kubernetes-validations")) == ("FieldValueForbidden", True)
        return
    custom.define(api, definition)
    api.post(kind.path(space), kind.object(spec={"low": 1, "high": 2}))
    status = api.post(kind.path(space), kind.object("two", spec={"low": 3, "high": 2}), expect=422)
    assert "low must not exceed high" in status["message"]


PRINTED = _plan(
    _with_spec({"size": {"type": "integer"}, "mode": {"type": "string"}}),
    additionalPrinterColumns=[
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1, "description": "how"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
)


def test_printer_columns_make_the_table(api: Api, space: Space) -> None:
    kind = PRINTED
    api.post(kind.path(space), kind.object(spec={"size": 3}))
    table = api.get(kind.path(space), accept=wire.TABLE)
    names = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert names == [("Name", 0), ("Size", 0), ("Mode", 1), ("Age", 0)]
    assert table["rows"][0]["cells"][:3] == ["one", 3, None]


TABLE_OF_TWO = _plan()


def test_default_table_has_name_and_age(api: Api, space: Space) -> None:
    kind = TABLE_OF_TWO
    table = api.get(kind.path(space), accept=wire.TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


SELECTED = _plan(
    _with_spec({"nodeName": {"type": "string"}, "size": {"type": "integer"}}),
    selectableFields=[{"jsonPath": ".spec.nodeName"}],
)


def test_selectable_fields(api: Api, space: Space) -> None:
    kind = SELECTED
    for name, node in (("a", "node-1"), ("b", "node-2")):
        api.post(kind.path(space), kind.object(name, spec={"nodeName": node}))
    listing = api.get(kind.path(space), fieldSelector="spec.nodeName=node-2")
    assert [item["metadata"]["name"] for item in listing["items"]] == ["b"]
    version = api.get(kind.path(space))["metadata"]["resourceVersion"]
    with api.watch(kind.path(space), fieldSelector="spec.nodeName=node-2", resourceVersion=version) as watch:
        api.merge(kind.path(space, "a"), {"spec": {"nodeName": "node-2"}})
        assert watch.take(1) == [("ADDED", "a")]
    status = api.get(kind.path(space), fieldSelector="spec.size=1", expect=400)
    assert "spec.size" in status["message"]


STATUS = _plan(_with_spec({"size": {"type": "integer"}}), subresources={"status": {}})


def test_status_subresource(api: Api, space: Space) -> None:
    kind = STATUS
    made = api.post(kind.path(space), kind.object(spec={"size": 1}, status={"phase": "x"}))
    assert "status" not in made
    updated = api.put(kind.path(space, "one", "status"), made | {"spec": {"size": 9}, "status": {"phase": "Ready"}})
    assert (updated["spec"], updated["status"]) == ({"size": 1}, {"phase": "Ready"})
    assert updated["metadata"]["generation"] == 1
    changed = api.merge(kind.path(space, "one"), {"spec": {"size": 2}, "status": {"phase": "Lost"}})
    assert (changed["spec"], changed["status"]) == ({"size": 2}, {"phase": "Ready"})
    assert changed["metadata"]["generation"] == 2
    labelled = api.merge(kind.path(space, "one"), {"metadata": {"labels": {"a": "1"}}})
    assert labelled["metadata"]["generation"] == 2


NO_STATUS = _plan(_with_spec({"size": {"type": "integer"}}))


def test_without_status_subresource_every_change_counts(api: Api, space: Space) -> None:
    kind = NO_STATUS
    made = api.post(kind.path(space), kind.object(spec={"size": 1}, status={"phase": "x"}))
    assert made["status"] == {"phase": "x"}
    changed = api.merge(kind.path(space, "one"), {"status": {"phase": "y"}})
    assert changed["metadata"]["generation"] == 2
    assert api.get(kind.path(space, "one", "status"), expect=404)["reason"] == "NotFound"


SCALED = _plan(
    _with_spec({"replicas": {"type": "integer"}}),
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
)


def test_scale_subresource(api: Api, space: Space) -> None:
    kind = SCALED
    api.post(kind.path(space), kind.object(spec={"replicas": 2}))
    api.merge(kind.path(space, "one", "status"), {"status": {"replicas": 1, "selector": "app=x"}})
    scale = api.get(kind.path(space, "one", "scale"))
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 2})
    assert scale["status"] == {"replicas": 1, "selector": "app=x"}
    scale["spec"]["replicas"] = 4
    api.put(kind.path(space, "one", "scale"), scale)
    assert api.get(kind.path(space, "one"))["spec"] == {"replicas": 4}


TWO_VERSIONS = _plan(versions=[custom.a_version("v1"), custom.a_version("v1beta1", storage=False)])


def test_object_is_served_in_every_version(api: Api, space: Space) -> None:
    kind = TWO_VERSIONS
    api.post(kind.path(space), kind.object(spec={"size": 1}))
    wire.eventually(
        lambda: api.send("GET", kind.path(space, "one", version="v1beta1")).code == 200, "v1beta1 is served"
    )
    old = api.get(kind.path(space, "one", version="v1beta1"))
    assert (old["apiVersion"], old["spec"]) == (f"{kind.group}/v1beta1", {"size": 1})


DEPRECATED = _plan(deprecated=True)


def test_deprecated_version_warns(api: Api, space: Space) -> None:
    kind = DEPRECATED
    answer = api.send("GET", kind.path(space))
    assert answer.warnings == f'299 - "{kind.group}/v1 Widget is deprecated"'


HALF_SERVED = _plan(versions=[custom.a_version("v1"), custom.a_version("v2", storage=False) | {"served": False}])


def test_version_that_is_not_served_is_not_found(api: Api, space: Space) -> None:
    kind = HALF_SERVED
    assert api.send("GET", kind.path(space, version="v2")).code == 404


def test_changed_schema_is_used(api: Api, space: Space) -> None:
    kind = Kind()
    made = custom.define(api, kind.definition())
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = _with_spec({"color": {"type": "string"}})
    api.put(f"{DEFINITIONS}/{kind.name}", made)

    def keeps_color() -> bool:
        # While the server changes over to the new schema a request may meet a closing door.
        shown = api.send("POST", kind.path(space), kind.object(spec={"color": "red"}), dryRun="All")
        return shown.code == 201 and bool(shown.body["spec"] == {"color": "red"})

    wire.eventually(keeps_color, "the new schema is used")


def test_scope_and_names_stay(api: Api) -> None:
    kind = Kind()
    made = custom.define(api, kind.definition())
    made["spec"]["scope"] = "Cluster"
    status = api.put(f"{DEFINITIONS}/{kind.name}", made, expect=422)
    assert ("FieldValueInvalid", "spec.scope") in wire.causes(status)


NOT_STRATEGIC = _plan()


def test_strategic_patch_is_not_for_custom_kinds(api: Api, space: Space) -> None:
    kind = NOT_STRATEGIC
    api.post(kind.path(space), kind.object())
    assert api.strategic(kind.path(space, "one"), {}, expect=415)["reason"] == "UnsupportedMediaType"


LISTED = _plan(
    _with_spec(
        {
            "rules": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": _object({"name": {"type": "string"}, "value": {"type": "string"}}, required=["name"]),
            }
        }
    )
)


def test_apply_knows_the_list_types_of_the_schema(api: Api, space: Space) -> None:
    kind = LISTED
    path = kind.path(space, "one")
    api.apply(path, kind.object(spec={"rules": [{"name": "a", "value": "1"}]}), manager="alice")
    made = api.apply(path, kind.object(spec={"rules": [{"name": "b", "value": "2"}]}), manager="bob")
    assert [entry["name"] for entry in made["spec"]["rules"]] == ["a", "b"]


LOCKED = _plan()


def test_update_of_a_custom_object_needs_a_version(api: Api, space: Space) -> None:
    kind = LOCKED
    api.post(kind.path(space), kind.object())
    status = api.put(kind.path(space, "one"), kind.object(spec={"size": 1}), expect=422)
    assert set(wire.causes(status)) == {("FieldValueInvalid", "metadata.resourceVersion")}
    assert "must be specified for an update" in status["message"]


DOOMED = _plan()


def test_deleting_the_definition_deletes_the_objects(api: Api, space: Space) -> None:
    kind = DOOMED
    made = api.post(kind.path(space), kind.object())
    with api.watch(kind.path(space), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        api.delete(f"{DEFINITIONS}/{kind.name}")
        assert watch.take(1) == [("DELETED", "one")]
    wire.eventually(lambda: api.gone(f"{DEFINITIONS}/{kind.name}"), "the definition is gone")
    wire.eventually(lambda: api.gone(kind.path(space)), "the kind is no longer served")


def test_two_definitions_cannot_claim_one_kind(api: Api) -> None:
    kind = Kind()
    custom.define(api, kind.definition())
    rival = Kind(group=kind.group, plural="widgetries")
    api.post(DEFINITIONS, rival.definition())
    path = f"{DEFINITIONS}/{rival.name}"
    wire.eventually(lambda: custom.condition(api.get(path), "NamesAccepted") == "False", "the names are refused")
    assert custom.condition(api.get(path), "Established") == "False"


def test_cluster_scoped_kind(api: Api) -> None:
    kind = Kind(cluster_scoped=True)
    custom.define(api, kind.definition())
    path = f"/apis/{kind.group}/v1/widgets"
    made = api.post(path, kind.object(builders.unique("w")))
    assert "namespace" not in made["metadata"]
