"""Kinds that our engine only stores: what is filled in, what is refused, what readers see."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.builders import Object
from tests.contract.spaces import Space
from tests.contract.wire import Api

HOOKS = "/apis/admissionregistration.k8s.io/v1"
LABELS = {"app": "demo"}


def a_controller(name: str, **spec: Any) -> Object:
    template = {"metadata": {"labels": LABELS}, "spec": builders.pod()["spec"]}
    return {"metadata": {"name": name}, "spec": {"replicas": 0, "template": template, **spec}}


def test_a_replication_controller_takes_labels_and_selector_from_its_template(api: Api, space: Space) -> None:
    made = api.post(space.core("replicationcontrollers"), a_controller("one", replicas=None))
    assert (made["kind"], made["apiVersion"]) == ("ReplicationController", "v1")
    assert made["metadata"]["labels"] == made["spec"]["selector"] == LABELS
    assert made["metadata"]["generation"] == 1
    assert (made["spec"]["replicas"], made["status"]["replicas"]) == (1, 0)
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Always"


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"replicas": -1}, ("FieldValueInvalid", "spec.replicas")),
        ({"selector": {"app": "other"}}, ("FieldValueInvalid", "spec.template.metadata.labels")),
        ({"template": None, "selector": LABELS}, ("FieldValueRequired", "spec.template")),
        ({"template": {"spec": builders.pod()["spec"]}}, ("FieldValueRequired", "spec.selector")),
        (
            {
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {**builders.pod()["spec"], "restartPolicy": "Never"},
                }
            },
            ("FieldValueNotSupported", "spec.template.spec.restartPolicy"),
        ),
    ],
)
def test_a_wrong_replication_controller_is_refused(
    api: Api, space: Space, spec: Object, cause: tuple[str, str]
) -> None:
    status = api.post(space.core("replicationcontrollers"), a_controller("one", **spec), expect=422)
    assert cause in wire.causes(status)


def test_a_replication_controller_has_a_status_and_a_scale(api: Api, space: Space) -> None:
    path = space.core("replicationcontrollers", "one")
    api.post(space.core("replicationcontrollers"), a_controller("one"))
    scale = api.get(f"{path}/scale")
    assert (scale["kind"], scale["status"]["selector"]) == ("Scale", "app=demo")
    api.merge(path, {"metadata": {"annotations": {"a": "b"}}})
    told = {"conditions": [{"type": "Odd", "status": "True"}]}
    assert api.merge(f"{path}/status", {"status": told})["status"]["conditions"][0]["type"] == "Odd"
    many = {"status": {"readyReplicas": 5}}
    status = api.call("PATCH", f"{path}/status", many, content_type=wire.MERGE_PATCH, expect=422)
    assert ("FieldValueInvalid", "status.readyReplicas") in wire.causes(status)
    status = api.merge(f"{path}/scale", {"spec": {"replicas": -1}}, expect=422)
    assert status["reason"] == "Invalid"


def test_tables_of_stored_kinds(api: Api, space: Space) -> None:
    api.post(space.core("replicationcontrollers"), a_controller("one"))
    template = {"metadata": {"labels": LABELS}, "spec": builders.pod()["spec"]}
    api.post(space.core("podtemplates"), {"metadata": {"name": "two"}, "template": template})
    table = api.get(space.core("replicationcontrollers"), accept=wire.TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        *("Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"),
    ]
    assert table["rows"][0]["cells"][:4] == ["one", 0, 0, 0]
    assert table["rows"][0]["cells"][-1] == "app=demo"
    table = api.get(space.core("podtemplates"), accept=wire.TABLE)
    container = template["spec"]["containers"][0]
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Containers", "Images", "Pod Labels"]
    assert table["rows"][0]["cells"] == ["two", container["name"], container["image"], "app=demo"]


def test_a_pod_template_is_filled_in_and_counted(api: Api, space: Space) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": builders.pod()["spec"]}
    made = api.post(space.core("podtemplates"), {"metadata": {"name": "one"}, "template": template})
    assert made["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert made["metadata"]["generation"] == 1
    path = space.core("podtemplates", "one")
    changed = api.merge(path, {"template": {"metadata": {"labels": {"app": "other"}}}})
    assert changed["metadata"]["generation"] == 2
    wrong = {"metadata": {"name": "two"}, "template": {"spec": {"containers": []}}}
    status = api.post(space.core("podtemplates"), wrong, expect=422)
    assert ("FieldValueRequired", "template.spec.containers") in wire.causes(status)


# -- webhooks ------------------------------------------------------------------------------------------------------


def a_hook(**more: Any) -> Object:
    """One that is about nothing that anybody writes."""
    rule = {
        "apiGroups": ["none.localpv.dev"],
        "apiVersions": ["v1"],
        "resources": ["nothings"],
        "operations": ["CREATE"],
    }
    return {
        "name": "hook.tests.localpv.dev",
        "clientConfig": {"service": {"namespace": "nowhere", "name": "nobody"}},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


KINDS = [("validatingwebhookconfigurations", {}), ("mutatingwebhookconfigurations", {"reinvocationPolicy": "Never"})]


@pytest.mark.parametrize(("plural", "own"), KINDS, ids=["validating", "mutating"])
def test_a_webhook_is_filled_in(api: Api, plural: str, own: Object) -> None:
    name = builders.unique("hooks")
    made = api.post(f"{HOOKS}/{plural}", {"metadata": {"name": name}, "webhooks": [a_hook()]})
    (hook,) = made["webhooks"]
    filled = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10, **own}
    assert hook.items() >= {**filled, "namespaceSelector": {}, "objectSelector": {}}.items()
    assert hook["rules"][0]["scope"] == "*"
    assert hook["clientConfig"]["service"]["port"] == 443
    path = f"{HOOKS}/{plural}/{name}"
    changed = api.json_patch(path, [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 5}])
    assert changed["metadata"]["generation"] == 2
    added = {"webhooks": [{"name": "other.tests.localpv.dev"} | a_hook(name="other.tests.localpv.dev")]}
    assert [each["name"] for each in api.strategic(path, added)["webhooks"]] == [
        *("other.tests.localpv.dev", "hook.tests.localpv.dev"),
    ]
    table = api.get(f"{HOOKS}/{plural}", accept=wire.TABLE, fieldSelector=f"metadata.name={name}")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Webhooks", "Age"]
    assert table["rows"][0]["cells"][:2] == [name, 2]
    status = api.put(path, {"metadata": {"name": name}, "webhooks": []}, expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "metadata.resourceVersion")]


WRONG: dict[str, tuple[Object, tuple[str, str]]] = {
    "name": ({"name": "short.dev"}, ("FieldValueInvalid", "name")),
    "no name": ({"name": ""}, ("FieldValueRequired", "name")),
    "side effects": ({"sideEffects": "Some"}, ("FieldValueNotSupported", "sideEffects")),
    "no side effects": ({"sideEffects": None}, ("FieldValueRequired", "sideEffects")),
    "versions": ({"admissionReviewVersions": ["v9"]}, ("FieldValueInvalid", "admissionReviewVersions")),
    "no versions": ({"admissionReviewVersions": []}, ("FieldValueRequired", "admissionReviewVersions")),
    "nobody to ask": ({"clientConfig": {}}, ("FieldValueRequired", "clientConfig")),
    "http": ({"clientConfig": {"url": "http://a.dev/"}}, ("FieldValueInvalid", "clientConfig.url")),
    "query": ({"clientConfig": {"url": "https://a.dev/?b=c"}}, ("FieldValueInvalid", "clientConfig.url")),
    "path": (
        {"clientConfig": {"service": {"namespace": "a", "name": "b", "path": "c"}}},
        ("FieldValueInvalid", "clientConfig.service.path"),
    ),
    "segments of the path": (
        {"clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/" * 100}}},
        ("FieldValueInvalid", "clientConfig.service.path"),
    ),
    "port": (
        {"clientConfig": {"service": {"namespace": "a", "name": "b", "port": 70000}}},
        ("FieldValueInvalid", "clientConfig.service.port"),
    ),
    "timeout": ({"timeoutSeconds": 31}, ("FieldValueInvalid", "timeoutSeconds")),
    "failure": ({"failurePolicy": "Odd"}, ("FieldValueNotSupported", "failurePolicy")),
    "match": ({"matchPolicy": "Odd"}, ("FieldValueNotSupported", "matchPolicy")),
    "rule": (
        {"rules": [{"apiGroups": ["*", "apps"], "apiVersions": ["v1"], "resources": ["x"], "operations": ["CREATE"]}]},
        ("FieldValueInvalid", "rules[0].apiGroups"),
    ),
    "selector": (
        {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}},
        ("FieldValueInvalid", "objectSelector.matchExpressions[0].operator"),
    ),
}


@pytest.mark.parametrize("plural", [plural for plural, _ in KINDS])
@pytest.mark.parametrize(("more", "cause"), WRONG.values(), ids=WRONG)
def test_a_wrong_webhook_is_refused(api: Api, plural: str, more: Object, cause: tuple[str, str]) -> None:
    name = builders.unique("hooks")
    status = api.post(f"{HOOKS}/{plural}", {"metadata": {"name": name}, "webhooks": [a_hook(**more)]}, expect=422)
    reason, field = cause
    assert set(wire.causes(status)) == {(reason, f"webhooks[0].{field}")}


@pytest.mark.parametrize("service", [{}, {"namespace": "", "name": ""}], ids=["nothing", "empty"])
def test_the_service_of_a_webhook_has_a_name_and_a_namespace(api: Api, service: Object) -> None:
    # Of one that is missing Kubernetes names the other, so only both together can be compared.
    client = {"service": service}
    sent = {"metadata": {"name": builders.unique("hooks")}, "webhooks": [a_hook(clientConfig=client)]}
    status = api.post(f"{HOOKS}/validatingwebhookconfigurations", sent, expect=422)
    assert sorted(wire.causes(status)) == [
        ("FieldValueRequired", "webhooks[0].clientConfig.service.name"),
        ("FieldValueRequired", "webhooks[0].clientConfig.service.namespace"),
    ]


def test_webhooks_have_names_of_their_own(api: Api) -> None:
    sent = {"metadata": {"name": builders.unique("hooks")}, "webhooks": [a_hook(), a_hook()]}
    status = api.post(f"{HOOKS}/validatingwebhookconfigurations", sent, expect=422)
    assert wire.causes(status) == [("FieldValueDuplicate", "webhooks[1].name")]
