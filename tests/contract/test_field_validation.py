"""Fields that a kind does not have, or that a body has twice: in which words and order each verb tells of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract import builders, custom, wire
from tests.contract.spaces import Space
from tests.contract.wire import Answer, Api

STRICT = "strict decoding error: "
PLAN = custom.Plan()

TEMPLATE = custom.an_object(
    {"metadata": custom.an_object({"name": {"type": "string"}}), "spec": custom.an_object({"x": {"type": "string"}})},
    **{"x-kubernetes-embedded-resource": True},
)
PROPERTIES = {
    "foo": {"type": "string"},
    "closed": custom.an_object({"a": {"type": "string"}}),
    "template": TEMPLATE,
    "another": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "map": {"type": "object", "additionalProperties": custom.an_object({"v": {"type": "string"}})},
    "list": {"type": "array", "items": custom.an_object({"v": {"type": "string"}})},
}
CLOSED = PLAN.kind(custom.with_spec(PROPERTIES))
OPEN = PLAN.kind(
    custom.an_object({"spec": custom.an_object(PROPERTIES, **{"x-kubernetes-preserve-unknown-fields": True})})
)


FREE = PLAN.kind({"type": "object", "x-kubernetes-preserve-unknown-fields": True})


def told(answer: Answer) -> str:
    """What follows the words that begin every such refusal."""
    return str(answer.body["message"]).partition(STRICT)[2]


def warned(*findings: str) -> str:
    """The header with these warnings."""
    return ", ".join('299 - "{}"'.format(finding.replace('"', '\\"')) for finding in findings)


def listed(findings: str) -> list[str]:
    return findings.split(", ")


def a_deployment(name: str, **inserted: str) -> bytes:
    """Its JSON text, with text put behind the opening brace of parts of it."""
    text = json.dumps(builders.deployment(name), separators=(",", ":"))
    for part, more in inserted.items():
        assert f'"{part}":{{' in text
        text = text.replace(f'"{part}":{{', f'"{part}":{{{more},', 1)
    return text.encode()


TYPED = {
    "unknown, then twice": (
        a_deployment("made", spec='"unknownField":"foo","replicas":2,"other":{"a":1}'),
        'unknown field "spec.unknownField", unknown field "spec.other", duplicate field "spec.replicas"',
    ),
    "twice, then unknown": (
        a_deployment("made", spec='"replicas":2,"replicas":3,"zz":1,"aa":2'),
        'duplicate field "spec.replicas", unknown field "spec.zz", unknown field "spec.aa"',
    ),
    "metadata, unknown and twice": (
        a_deployment("made", metadata='"unknownMeta":1,"unknownMeta":2'),
        'unknown field "metadata.unknownMeta"',
    ),
    "in a map, and inside what is unknown": (
        a_deployment("made", metadata='"labels":{"q":"1","q":"2"},"annotation":{"x":1,"x":2}'),
        'duplicate field "metadata.labels.q", unknown field "metadata.annotation"',
    ),
    "another case, and null": (
        a_deployment("made", spec='"Replicas":3,"nothing":null'),
        'unknown field "spec.Replicas", unknown field "spec.nothing"',
    ),
}


@pytest.mark.parametrize(("body", "findings"), TYPED.values(), ids=TYPED)
def test_typed_objects_are_told_of_in_the_order_of_the_body(api: Api, space: Space, body: bytes, findings: str) -> None:
    path = space.of("apps/v1", "deployments")
    strict = api.send("POST", path, body, fieldValidation="Strict")
    assert (strict.code, strict.body["reason"]) == (400, "BadRequest")
    assert strict.body["message"] == f'Deployment in version "v1" cannot be handled as a Deployment: {STRICT}{findings}'
    warning = api.send("POST", path, body, fieldValidation="Warn")
    assert (warning.code, warning.warnings) == (201, warned(*listed(findings)))
    update = api.send("PUT", f"{path}/made", body, fieldValidation="Strict")
    assert (update.code, told(update)) == (400, findings)
    assert api.send("PUT", f"{path}/made", body).warnings == warned(*listed(findings))
    ignored = api.send("PUT", f"{path}/made", body, fieldValidation="Ignore")
    assert (ignored.code, ignored.warnings) == (200, "")


def test_the_body_of_a_subresource_is_read_as_strictly(api: Api, space: Space) -> None:
    api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    scale = (
        b'{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"one","foo":1},'
        b'"spec":{"replicas":2,"replicas":3,"bar":1}}'
    )
    path = space.of("apps/v1", "deployments", "one", "scale")
    found = 'unknown field "metadata.foo", duplicate field "spec.replicas", unknown field "spec.bar"'
    strict = api.send("PUT", path, scale, fieldValidation="Strict")
    assert strict.body["message"] == f'Scale in version "v1" cannot be handled as a Scale: {STRICT}{found}'
    assert api.send("PUT", path, scale).warnings == warned(*listed(found))
    patch = b'{"spec":{"replicas":2,"replicas":3,"foo":1},"a":1}'
    found = 'duplicate field "spec.replicas", unknown field "a", unknown field "spec.foo"'
    strict = api.send("PATCH", path, patch, content_type=wire.MERGE_PATCH, fieldValidation="Strict")
    assert (strict.code, told(strict)) == (422, found)
    assert api.send("PATCH", path, patch, content_type=wire.MERGE_PATCH).warnings == warned(*listed(found))
    token = b'{"spec":{"foo":1,"expirationSeconds":600,"expirationSeconds":700},"x":1}'
    found = 'unknown field "spec.foo", duplicate field "spec.expirationSeconds", unknown field "x"'
    api.post(space.core("serviceaccounts"), builders.service_account("robot"))
    strict = api.send("POST", space.core("serviceaccounts", "robot", "token"), token, fieldValidation="Strict")
    assert (strict.code, told(strict)) == (400, found)
    review = b'{"spec":{"resourceAttributes":{"verb":"get","verb":"list","foo":1}},"bar":1}'
    found = (
        'duplicate field "spec.resourceAttributes.verb", unknown field "spec.resourceAttributes.foo", '
        'unknown field "bar"'
    )
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert told(api.send("POST", reviews, review, fieldValidation="Strict")) == found
    assert api.send("POST", reviews, review).warnings == warned(*listed(found))


def test_what_is_nested_in_a_schema_is_dropped_without_a_word(api: Api) -> None:
    inner = {"type": "array", "items": custom.an_object({"a": {"type": "string", "odd": 1}}, odd=1)}
    definition = custom.Kind().definition(custom.an_object({"list": inner | {"odd": 1}}, odd=1))
    strict = api.send("POST", custom.DEFINITIONS, definition, fieldValidation="Strict", dryRun="All")
    schema = "spec.versions[0].schema.openAPIV3Schema"
    assert listed(told(strict)) == [
        f'unknown field "{schema}.properties.list.odd"',
        f'unknown field "{schema}.odd"',
    ]


# -- YAML ----------------------------------------------------------------------------------------------------------

CONFIG_MAP = b"""apiVersion: v1
kind: ConfigMap
zeta: 1
metadata:
  unknownMeta: a
  name: made
data:
  a: b
  a: c
  e:
    two
  e:
    three
immutable: false
immutable: true
alpha: 1
"""


def test_of_yaml_what_is_twice_is_told_by_lines_and_the_unknown_in_order_of_the_keys(api: Api, space: Space) -> None:
    path = space.core("configmaps")
    lines = [
        'line 9: key "a" already set in map',
        'line 13: key "e" already set in map',
        'line 15: key "immutable" already set in map',
    ]
    unknown = ['unknown field "alpha"', 'unknown field "metadata.unknownMeta"', 'unknown field "zeta"']
    strict = api.send("POST", path, CONFIG_MAP, content_type="application/yaml", fieldValidation="Strict")
    assert strict.code == 400
    assert told(strict) == "yaml: unmarshal errors:\n  " + "\n  ".join(lines) + ", " + ", ".join(unknown)
    warning = api.send("POST", path, CONFIG_MAP, content_type="application/yaml", fieldValidation="Warn")
    assert (warning.code, warning.body["data"]) == (201, {"a": "c", "e": "three"})
    assert warning.warnings == warned(*lines, *unknown)
    update = api.send("PUT", f"{path}/made", CONFIG_MAP, content_type="application/yaml")
    assert update.warnings == warned(*lines, *unknown)


def test_json_sent_as_yaml_is_told_of_by_lines_too(api: Api, space: Space) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made"},\n"data":{"a":"b","a":"c"},"zz":1,"bb":1}'
    answer = api.send("POST", space.core("configmaps"), body, content_type="application/yaml")
    findings = ['line 2: key "a" already set in map', 'unknown field "bb"', 'unknown field "zz"']
    assert (answer.code, answer.warnings) == (201, warned(*findings))


# -- patches -------------------------------------------------------------------------------------------------------

BOTH = b'{"metadata":{"zz":1},"spec":{"unknownField":1,"replicas":2,"replicas":3,"un":null},"aa":1}'
OPERATIONS = (
    b'[{"op":"add","path":"/spec/unknownField","value":1},{"op":"add","path":"/metadata/zz","value":1},'
    b'{"op":"add","path":"/spec/replicas","value":2,"value":3,"odd":1}]'
)
PATCHES = {
    "merge": (
        wire.MERGE_PATCH,
        BOTH,
        [
            'duplicate field "spec.replicas"',
            *(f'unknown field "{path}"' for path in ("aa", "metadata.zz", "spec.unknownField")),
        ],
    ),
    "strategic": (
        wire.STRATEGIC_PATCH,
        BOTH,
        [
            'duplicate field "spec.replicas"',
            *(f'unknown field "{path}"' for path in ("aa", "metadata.zz", "spec.unknownField")),
        ],
    ),
    "json": (
        wire.JSON_PATCH,
        OPERATIONS,
        [
            'json patch duplicate field "[2].value"',
            'json patch unknown field "[2].odd"',
            'unknown field "metadata.zz"',
            'unknown field "spec.unknownField"',
        ],
    ),
}


@pytest.mark.parametrize(("media_type", "patch", "findings"), PATCHES.values(), ids=PATCHES)
def test_a_patch_is_told_of_itself_first_and_then_of_what_it_leads_to(
    api: Api, space: Space, media_type: str, patch: bytes, findings: list[str]
) -> None:
    api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    path = space.of("apps/v1", "deployments", "one")
    strict = api.send("PATCH", path, patch, content_type=media_type, fieldValidation="Strict")
    assert (strict.code, strict.body["reason"]) == (422, "Invalid")
    assert strict.body["message"].startswith(' "" is invalid: patch: Invalid value: ')
    assert wire.causes(strict.body) == [("FieldValueInvalid", "patch")]
    assert told(strict) == ", ".join(findings)
    warning = api.send("PATCH", path, patch, content_type=media_type)
    assert (warning.code, warning.body["spec"]["replicas"]) == (200, 3)
    assert warning.warnings == warned(*findings)
    ignored = api.send("PATCH", path, patch, content_type=media_type, fieldValidation="Ignore")
    assert (ignored.code, ignored.warnings) == (200, "")


@pytest.mark.parametrize("media_type", [wire.MERGE_PATCH, wire.STRATEGIC_PATCH])
def test_a_patch_that_leads_to_a_wrong_type_is_invalid(api: Api, space: Space, media_type: str) -> None:
    path = f"/api/v1/namespaces/{space.name}"
    answer = api.send("PATCH", path, {"metadata": {"labels": 1}}, content_type=media_type)
    assert answer.code == 422
    assert wire.causes(answer.body) == [("FieldValueInvalid", "patch")]


def test_warnings_come_with_a_refusal_too(api: Api, space: Space) -> None:
    answer = api.send("POST", space.core("configmaps"), builders.config_map("-wrong-") | {"dato": {}})
    assert (answer.code, answer.warnings) == (422, warned('unknown field "dato"'))


# -- server-side apply ---------------------------------------------------------------------------------------------


def applied(api: Api, path: str, body: bytes, validation: str | None = None) -> Answer:
    return api.send("PATCH", path, body, content_type=wire.APPLY_PATCH, fieldManager="me", fieldValidation=validation)


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_apply_refuses_what_the_schema_does_not_declare(api: Api, space: Space, validation: str) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: made\ndato: {}\n"
    answer = applied(api, space.core("configmaps", "made"), body, validation)
    assert answer.code == 500
    assert answer.body["message"] == (
        "failed to create typed patch object (/made; /v1, Kind=ConfigMap): .dato: field not declared in schema"
    )


def test_apply_tells_by_lines_what_is_twice(api: Api, space: Space) -> None:
    path = space.core("configmaps", "made")
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\n"
    strict = applied(api, path, head + b"data:\n  a: b\n  a: c\n", "Strict")
    assert (strict.code, strict.body["reason"]) == (400, "BadRequest")
    assert strict.body["message"] == (
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 6: key "a" already set in map'
    )
    warning = applied(api, path, head + b"data:\n  a: b\n  a: c\n", "Warn")
    assert (warning.code, warning.warnings) == (201, warned('line 6: key "a" already set in map'))
    json_body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made"},\n"data":{"a":"b","a":"c"}}'
    assert 'line 2: key "a" already set in map' in applied(api, path, json_body, "Strict").body["message"]
    assert applied(api, path, json_body, "Ignore").warnings == ""


def test_apply_needs_the_name_in_the_body(api: Api, space: Space) -> None:
    answer = applied(api, space.core("configmaps", "made"), b'{"apiVersion":"v1","kind":"ConfigMap"}')
    assert answer.code == 400
    assert "was undeterminable: name must be provided" in answer.body["message"]


# -- custom kinds --------------------------------------------------------------------------------------------------


def a_document(kind: custom.Kind, name: str, version: str = "") -> bytes:
    """With unknown fields and repeated ones wherever they can be."""
    known = f',"resourceVersion":"{version}"' if version else ""
    sub = '"apiVersion":"foo/v1","kind":"Sub"'
    return f"""{{
        "apiVersion":"{kind.group}/v1","kind":"{kind.kind}","bogus":1,
        "metadata":{{"name":"{name}","unknownMeta":"x","labels":{{"a":"1","a":"2"}}{known}}},
        "spec":{{"unknown":{{"d":1,"d":2}},"foo":"a","foo":"b",
            "template":{{{sub},"metadata":{{"unknownSub":"u","name":"s","name":"t"}},"spec":{{"y":1}},"z":1}},
            "another":{{{sub},"metadata":{{"unknownSub":"u"}},"free":1}},
            "closed":{{"zz":1,"aa":2}},"map":{{"k":{{"w":1}}}},"list":[{{"v":"1","w":1}}]}}}}""".encode()


def findings_of(kind: custom.Kind) -> list[str]:
    own = ["bogus", "spec.closed.aa", "spec.closed.zz", "spec.list[0].w", "spec.map.k.w"]
    own += ["spec.template.spec.y", "spec.template.z", *(["spec.unknown"] if kind is CLOSED else [])]
    unknown = ["metadata.unknownMeta", *own, "spec.another.metadata.unknownSub", "spec.template.metadata.unknownSub"]
    twice = ["metadata.labels.a", "spec.unknown.d", "spec.foo", "spec.template.metadata.name"]
    return [*(f'duplicate field "{path}"' for path in twice), *(f'unknown field "{path}"' for path in unknown)]


@pytest.mark.parametrize("kind", [CLOSED, OPEN], ids=["closed", "open"])
def test_custom_objects_are_told_of_by_parts(api: Api, space: Space, kind: custom.Kind) -> None:
    path, findings = kind.path(space), findings_of(kind)
    strict = api.send("POST", path, a_document(kind, "one"), fieldValidation="Strict")
    assert strict.code == 400
    assert strict.body["message"] == (
        f'{kind.kind} in version "v1" cannot be handled as a {kind.kind}: {STRICT}{", ".join(findings)}'
    )
    made = api.send("POST", path, a_document(kind, "one"), fieldValidation="Warn")
    assert (made.code, made.warnings) == (201, warned(*findings))
    assert made.body["spec"]["template"] == {
        "apiVersion": "foo/v1",
        "kind": "Sub",
        "metadata": {"name": "t"},
        "spec": {},
    }
    assert made.body["spec"].get("unknown") == ({"d": 2} if kind is OPEN else None)
    newer = a_document(kind, "one", made.body["metadata"]["resourceVersion"])
    assert told(api.send("PUT", f"{path}/one", newer, fieldValidation="Strict")) == ", ".join(findings)
    merged = api.send("PATCH", f"{path}/one", newer, content_type=wire.MERGE_PATCH, fieldValidation="Strict")
    assert (merged.code, told(merged)) == (422, ", ".join(findings))
    ignored = api.send("PUT", f"{path}/one", newer, fieldValidation="Ignore")
    assert (ignored.code, ignored.warnings) == (200, "")


def test_custom_objects_in_yaml_are_told_of_by_lines_first(api: Api, space: Space) -> None:
    text = (
        f"apiVersion: {CLOSED.group}/v1\nkind: {CLOSED.kind}\nmetadata:\n  name: made\n  unknownMeta: a\ntop: a\n"
        "spec:\n  unknown: u\n  foo: a\n  foo: b\n  template:\n    apiVersion: foo/v1\n    kind: Sub\n"
        "    metadata:\n      unknownSub: x\n"
    )
    strict = api.send(
        "POST", CLOSED.path(space), text.encode(), content_type="application/yaml", fieldValidation="Strict"
    )
    unknown = ("metadata.unknownMeta", "spec.unknown", "top", "spec.template.metadata.unknownSub")
    assert told(strict) == ", ".join(
        [
            'yaml: unmarshal errors:\n  line 10: key "foo" already set in map',
            *(f'unknown field "{path}"' for path in unknown),
        ]
    )


def test_json_patch_of_a_custom_object(api: Api, space: Space) -> None:
    path = CLOSED.path(space)
    api.post(path, CLOSED.object("one", spec={"foo": "a"}))
    patch = b'[{"op":"add","path":"/spec/odd","value":1},{"op":"add","path":"/spec/foo","value":"q","value":"r","x":1}]'
    strict = api.send("PATCH", f"{path}/one", patch, content_type=wire.JSON_PATCH, fieldValidation="Strict")
    assert strict.code == 422
    assert listed(told(strict)) == [
        'json patch duplicate field "[1].value"',
        'json patch unknown field "[1].x"',
        'unknown field "spec.odd"',
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"unknownField": "u"}, ".unknownField"),
        ({"spec": {"unknown": "u"}}, ".spec.unknown"),
        (
            {"spec": {"template": {"apiVersion": "v1", "kind": "Sub", "metadata": {"unknownSub": 1}}}},
            ".spec.template.metadata.unknownSub",
        ),
        ({"spec": {"closed": {"zz": 1}}}, ".spec.closed.zz"),
    ],
)
def test_apply_of_a_custom_object_refuses_what_is_not_declared(
    api: Api, space: Space, fields: Any, problem: str
) -> None:
    body = json.dumps(CLOSED.object("made", **fields)).encode()
    answer = applied(api, CLOSED.path(space, "made"), body)
    assert answer.code == 500
    assert answer.body["message"] == (
        f"failed to create typed patch object (/made; {CLOSED.group}/v1, Kind={CLOSED.kind}): "
        f"{problem}: field not declared in schema"
    )


def test_apply_keeps_quiet_below_what_is_preserved(api: Api, space: Space) -> None:
    """There it is pruned without a word; only metadata are always known."""
    spec = {"free": 1, "closed": {"zz": 1}, "map": {"k": {"w": 1}}, "list": [{"w": 1}]}
    answer = applied(api, OPEN.path(space, "made"), json.dumps(OPEN.object("made", spec=spec)).encode(), "Strict")
    assert (answer.code, answer.warnings) == (201, "")
    assert answer.body["spec"] == {"free": 1, "closed": {}, "map": {"k": {}}, "list": [{}]}
    spec["template"] = {"apiVersion": "v1", "kind": "Sub", "metadata": {"unknownSub": 1}}
    refused = applied(api, OPEN.path(space, "made"), json.dumps(OPEN.object("made", spec=spec)).encode())
    assert refused.code == 500
    assert ".spec.template.metadata.unknownSub: field not declared in schema" in refused.body["message"]


@pytest.mark.parametrize("validation", ["Strict", "Warn"])
def test_where_everything_is_preserved_only_metadata_can_be_wrong(api: Api, space: Space, validation: str) -> None:
    sent = FREE.object("made", any={"thing": [1, {"a": None}]}, spec={"template": {"metadata": {"odd": 1}}})
    made = applied(api, FREE.path(space, "made"), json.dumps(sent).encode(), validation)
    assert (made.code, made.warnings) == (201, "")
    assert made.body["spec"] == sent["spec"]
    put = api.send("POST", FREE.path(space), sent | {"metadata": {"name": "two"}}, fieldValidation=validation)
    assert (put.code, put.warnings) == (201, "")
    sent["metadata"]["unknownMeta"] = 1
    refused = applied(api, FREE.path(space, "made"), json.dumps(sent).encode(), validation)
    assert refused.code == 500
    assert ".metadata.unknownMeta: field not declared in schema" in refused.body["message"]
