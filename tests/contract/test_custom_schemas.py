"""What the schema of a custom kind does: pruning, defaults, validation, columns, selectable fields, list types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract import custom, wire
from tests.contract.custom import DEFINITIONS, Kind
from tests.contract.spaces import Space
from tests.contract.wire import Api

PLAN = custom.Plan()


def test_schema_must_be_structural(api: Api) -> None:
    status = api.post(DEFINITIONS, Kind().definition({"properties": {"spec": {"type": "object"}}}), expect=422)
    fields = {field for _, field in wire.causes(status)}
    assert any(field.endswith("openAPIV3Schema.type") for field in fields)


PRUNED = PLAN.kind()


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


FREE = PLAN.kind(custom.an_object({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}))


def test_unknown_fields_stay_where_the_schema_says_so(api: Api, space: Space) -> None:
    kind = FREE
    assert api.post(kind.path(space), kind.object(spec={"any": {"thing": 1}}))["spec"] == {"any": {"thing": 1}}


DEFAULTED = PLAN.kind(
    custom.with_spec(
        {
            "size": {"type": "integer", "default": 5},
            "inner": custom.an_object({"on": {"type": "boolean", "default": True}}),
            "list": {"type": "array", "items": custom.an_object({"mode": {"type": "string", "default": "a"}})},
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
VALIDATED = PLAN.kind(custom.with_spec({f"value{index}": schema for index, (schema, _, _) in enumerate(VALUES)}))


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


PATTERNED = PLAN.kind(
    custom.with_spec(
        {
            "slow": {"type": "string", "pattern": "^(a+)+$"},
            "greek": {"type": "string", "pattern": r"^\p{Greek}+[[:^alpha:]]$"},
        }
    )
)


def test_a_pattern_takes_time_that_grows_with_the_text_alone(api: Api, space: Space) -> None:
    status = api.post(PATTERNED.path(space), PATTERNED.object(spec={"slow": "a" * 40 + "b"}), expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "spec.slow")]


def test_a_pattern_is_one_of_go(api: Api, space: Space) -> None:
    made = api.post(PATTERNED.path(space), PATTERNED.object("two", spec={"greek": "\u03bb\u03bf\u03b31"}))
    assert made["spec"] == {"greek": "\u03bb\u03bf\u03b31"}


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a++", "a{1001}"])
def test_a_pattern_that_go_cannot_compile_is_refused(api: Api, pattern: str) -> None:
    definition = Kind().definition(custom.with_spec({"a": {"type": "string", "pattern": pattern}}))
    status = api.post(DEFINITIONS, definition, expect=422, dryRun="All")
    assert any(field.endswith("properties[a].pattern") for _, field in wire.causes(status)), status


def test_null_is_dropped_where_the_schema_does_not_allow_it(api: Api, space: Space) -> None:
    assert api.post(VALIDATED.path(space), VALIDATED.object(spec={"value4": None}))["spec"] == {}


def test_rules_in_cel_are_evaluated_or_refused_by_name(api: Api, space: Space) -> None:
    kind = Kind()
    rules = [{"rule": "self.low <= self.high", "message": "low must not exceed high"}]
    properties = {"low": {"type": "integer"}, "high": {"type": "integer"}}
    definition = kind.definition(custom.with_spec(properties, **{"x-kubernetes-validations": rules}))
    if (answer := api.send("POST", DEFINITIONS, definition, dryRun="All")).code == 422:
        # A server without CEL must not take a rule that it would not keep.
        ((reason, field),) = wire.causes(answer.body)
        assert (reason, field.endswith("x-kubernetes-validations")) == ("FieldValueForbidden", True)
        return
    custom.define(api, definition)
    api.post(kind.path(space), kind.object(spec={"low": 1, "high": 2}))
    status = api.post(kind.path(space), kind.object("two", spec={"low": 3, "high": 2}), expect=422)
    assert "low must not exceed high" in status["message"]


PRINTED = PLAN.kind(
    custom.with_spec({"size": {"type": "integer"}, "mode": {"type": "string"}}),
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


TABLE_OF_TWO = PLAN.kind()


def test_default_table_has_name_and_age(api: Api, space: Space) -> None:
    kind = TABLE_OF_TWO
    table = api.get(kind.path(space), accept=wire.TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


SELECTED = PLAN.kind(
    custom.with_spec({"nodeName": {"type": "string"}, "size": {"type": "integer"}}),
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


def test_changed_schema_is_used(api: Api, space: Space) -> None:
    kind = Kind()
    made = custom.define(api, kind.definition())
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = custom.with_spec({"color": {"type": "string"}})
    api.put(f"{DEFINITIONS}/{kind.name}", made)

    def keeps_color() -> bool:
        # While the server changes over to the new schema a request may meet a closing door.
        shown = api.send("POST", kind.path(space), kind.object(spec={"color": "red"}), dryRun="All")
        return shown.code == 201 and bool(shown.body["spec"] == {"color": "red"})

    wire.eventually(keeps_color, "the new schema is used")


LISTED = PLAN.kind(
    custom.with_spec(
        {
            "rules": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": custom.an_object({"name": {"type": "string"}, "value": {"type": "string"}}, required=["name"]),
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


def _fields(levels: int, width: int) -> dict[str, Any]:
    """A schema as generators write it when they are told to leave the descriptions out."""
    if not levels:
        return {"type": "string"}
    return custom.an_object({f"field{levels}{each}": _fields(levels - 1, width) for each in range(width)})


@pytest.mark.timeout(
    600
)  # kube-apiserver works on each of the requests for seconds, on a busy machine for half a minute
def test_a_schema_may_have_a_megabyte_of_fields(api: Api) -> None:
    """The largest that people install have half of this; there are 14 bytes to a value in them."""
    kind = Kind()
    body = kind.definition(_fields(5, 8))
    raw = json.dumps(body, separators=(",", ":")).encode()
    assert 1 << 20 < len(raw) < 3 << 19
    api.post(DEFINITIONS, raw)
    one = f"{DEFINITIONS}/{kind.name}"
    api.put(one, wire.eventually(lambda: _established(api, one), "the kind is served"))
    applied = api.send("PATCH", one, raw, content_type=wire.APPLY_PATCH, fieldManager="x", force="true")
    assert applied.code == 200
    api.delete(one)


def _established(api: Api, path: str) -> Any:
    found = api.get(path)
    conditions = {each["type"]: each["status"] for each in (found.get("status") or {}).get("conditions") or ()}
    return found if conditions.get("Established") == "True" else None
