"""What a request may touch is what it was authorised for: tokens, selectors and subresources cannot widen it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.builders import rule
from tests.contract.spaces import Space
from tests.contract.wire import Api

RBAC = "rbac.authorization.k8s.io/v1"
LEASES = "coordination.k8s.io/v1"


class Robot:
    """A service account and the rights it is given."""

    def __init__(self, api: Api, space: Space) -> None:
        self.api, self.space = api, space
        api.post(space.core("serviceaccounts"), builders.service_account("robot"))
        self.client = api.as_bearer(
            api.post(space.core("serviceaccounts", "robot", "token"), {"spec": {}})["status"]["token"]
        )

    def allow(self, *rules: builders.Object) -> Api:
        """Give it these rules in its namespace, and wait until the server acts on the last of them."""
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": self.space.name}
        sentinel = builders.unique("sentinel")
        last = rule("get", sentinel, group="contract.invalid")
        name = self.api.post(self.space.of(RBAC, "roles"), builders.role(None, *rules, last))["metadata"]["name"]
        self.api.post(self.space.of(RBAC, "rolebindings"), builders.role_binding(name, subject))
        asked = {"namespace": self.space.name, "verb": "get", "group": "contract.invalid", "resource": sentinel}
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        wire.eventually(
            lambda: self.client.post(reviews, {"spec": {"resourceAttributes": asked}})["status"]["allowed"],
            "the new rights are in force",
        )
        return self.client


@pytest.fixture
def robot(api: Api, space: Space) -> Robot:
    return Robot(api, space)


def continue_token(start: str, version: int, form: str = "meta.k8s.io/v1") -> str:
    text = json.dumps({"v": form, "rv": version, "start": start})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.fixture
def spaces(api: Api) -> Iterator[tuple[Space, Space]]:
    """Two namespaces, the first of which comes first in every order of keys."""
    names = [api.post("/api/v1/namespaces", builders.namespace(builders.unique(p)))["metadata"]["name"] for p in "az"]
    yield Space(names[0]), Space(names[1])


def _starts(other: Space, own: Space) -> list[str]:
    return [
        f"{other.name}/",
        f"{other.name}/one",
        f"{other.name}",
        f"/{other.name}/one\0",
        f"../{other.name}/one",
        f"..%2F{other.name}/one",
        f"{own.name}/../{other.name}/one",
        f"/{own.name}/one\0",
        "..",
        ".",
        "/",
        "\0",
        "0",
        "",
    ]


@pytest.mark.parametrize("moment", ["now", "that", "none"])
def test_a_forged_continue_token_does_not_leave_its_namespace(
    api: Api, spaces: tuple[Space, Space], moment: str
) -> None:
    first, last = spaces
    robot = Robot(api, last).allow(rule("list deletecollection", "secrets"))
    for space in spaces:
        for name in ("one", "two"):
            api.post(space.core("secrets"), builders.secret(name))
    version = int(api.get(last.core("secrets"))["metadata"]["resourceVersion"])
    for start in _starts(first, last):
        token = continue_token(start, {"now": -1, "that": version, "none": 0}[moment])
        for selection in ({}, {"fieldSelector": "metadata.name=one"}, {"labelSelector": "!x"}, {"limit": "1"}):
            answer = robot.send("GET", last.core("secrets"), **{"continue": token}, **selection)
            assert answer.code in (200, 400), (start, answer.raw)
            items = answer.body["items"] if answer.code == 200 else []
            assert {item["metadata"]["namespace"] for item in items} <= {last.name}, (start, selection)
            if "fieldSelector" in selection:
                assert {item["metadata"]["name"] for item in items} <= {"one"}
        robot.send("DELETE", last.core("secrets"), **{"continue": token}, labelSelector="!x")
        assert len(api.get(first.core("secrets"))["items"]) == 2, (start, "secrets of another namespace were deleted")


def test_a_continue_token_of_another_request_opens_nothing(api: Api, spaces: tuple[Space, Space]) -> None:
    first, last = spaces
    robot = Robot(api, last).allow(rule("list", "secrets"))
    for space in spaces:
        for name in ("one", "two"):
            api.post(space.core("secrets"), builders.secret(name, labels={"of": space.name}))
    everywhere = f"of in ({first.name},{last.name})"
    tokens = [
        api.get("/api/v1/secrets", limit=1, labelSelector=everywhere)["metadata"]["continue"],
        api.get(first.core("secrets"), limit=1)["metadata"]["continue"],
    ]
    for token in tokens:
        answer = robot.send("GET", last.core("secrets"), **{"continue": token})
        items = answer.body["items"] if answer.code == 200 else []
        assert {item["metadata"]["namespace"] for item in items} <= {last.name}


@pytest.mark.parametrize(
    ("start", "version", "form"),
    [
        ("../x", -1, "meta.k8s.io/v1"),
        ("x//y", -1, "meta.k8s.io/v1"),
        ("x/", -1, "meta.k8s.io/v1"),
        ("./x", -1, "meta.k8s.io/v1"),
        ("", -1, "meta.k8s.io/v1"),
        ("x", 0, "meta.k8s.io/v1"),
        ("x", -1, "meta.k8s.io/v2"),
        ("x", -1, ""),
    ],
)
def test_continue_tokens_that_no_server_makes_are_bad_requests(
    api: Api, space: Space, start: str, version: int, form: str
) -> None:
    token = continue_token(start, version, form)
    assert "continue key is not valid" in api.get(space.core("secrets"), expect=400, **{"continue": token})["message"]


def test_a_continue_token_starts_at_its_key(api: Api, space: Space) -> None:
    for name in ("a", "b", "c"):
        api.post(space.core("secrets"), builders.secret(name))
    for start, wanted in (("b", ["b", "c"]), ("b\0", ["c"]), ("/c", ["c"]), ("d", [])):
        found = api.get(space.core("secrets"), **{"continue": continue_token(start, -1)})
        assert [item["metadata"]["name"] for item in found["items"]] == wanted, start


def test_a_selected_name_counts_for_lists_and_watches_alone(api: Api, space: Space, robot: Robot) -> None:
    api.post(space.core("configmaps"), builders.config_map("mine"))
    api.post(space.core("configmaps"), builders.config_map("other"))
    client = robot.allow(rule("*", "configmaps", names=["mine"]))
    mine = {"fieldSelector": "metadata.name=mine"}
    path, other = space.core("configmaps"), space.core("configmaps", "other")

    assert [item["metadata"]["name"] for item in client.get(path, **mine)["items"]] == ["mine"]
    with client.watch(path, **mine) as watch:
        assert watch.take(1) == [("ADDED", "mine")]
    client.get(path, expect=403)
    client.get(path, expect=403, fieldSelector="metadata.name!=other")
    client.get(other, expect=403, **mine)
    client.post(path, builders.config_map("more"), expect=403, **mine)
    client.post(path, builders.config_map("mine"), expect=403, **mine)
    client.put(other, builders.config_map("other", data={"a": "b"}), expect=403, **mine)
    client.merge(other, {"data": {"a": "b"}}, expect=403, **mine)
    client.delete(other, expect=403, **mine)
    # The name in a selector does not count here, in Kubernetes neither.
    client.delete(path, expect=403, **mine)
    client.delete(path, expect=403)
    left = {item["metadata"]["name"]: item for item in api.get(path)["items"]}
    assert {"mine", "other"} <= set(left) and "more" not in left
    assert "data" not in left["other"]


def test_a_right_to_get_is_no_right_to_watch(api: Api, space: Space, robot: Robot) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    client = robot.allow(rule("get", "configmaps"))
    # With a name in the path the option watch says nothing: it is a get, and answers as one.
    assert client.get(space.core("configmaps", "one"), watch="true")["metadata"]["name"] == "one"
    client.get(space.core("configmaps"), expect=403, watch="true")
    client.get(f"/api/v1/watch/namespaces/{space.name}/configmaps/one", expect=403)


def test_the_old_watch_path_of_one_name_keeps_its_selectors(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    old = f"/api/v1/watch/namespaces/{space.name}/pods/one"
    api.get(old, expect=400, fieldSelector="spec.nodeName=elsewhere")
    api.get(old, expect=400, fieldSelector="metadata.name=two")
    nothing = api.send("GET", old, fieldSelector="metadata.name=one,spec.nodeName=elsewhere", timeoutSeconds=1)
    assert (nothing.code, nothing.raw) == (200, b"")
    for selector in ("metadata.name=one", ""):
        with api.watch(old, fieldSelector=selector) as watch:
            assert watch.take(1) == [("ADDED", "one")]
            api.merge(space.core("pods", "one"), {"metadata": {"labels": {"selector": str(len(selector))}}})
            assert watch.take(1) == [("MODIFIED", "one")], selector


def test_the_old_watch_path_only_watches(api: Api, space: Space) -> None:
    api.post(space.core("secrets"), builders.secret("one"))
    old = f"/api/v1/watch/namespaces/{space.name}/secrets"
    for method, path in (("POST", old), ("DELETE", old), ("DELETE", f"{old}/one"), ("PUT", f"{old}/one")):
        assert api.send(method, path, builders.secret("one")).code in (404, 405), (method, path)
    assert api.send("GET", f"/api/v1/watch/namespaces/{space.name}/pods/one/status").code == 404
    assert [item["metadata"]["name"] for item in api.get(space.core("secrets"))["items"]] == ["one"]


def test_making_an_object_by_put_or_apply_takes_the_right_to_create(api: Api, space: Space, robot: Robot) -> None:
    writes = "get update patch"
    client = robot.allow(rule(writes, "leases", group="coordination.k8s.io"), rule(writes, "configmaps"))
    lease = space.of(LEASES, "leases", "one")
    client.put(lease, builders.lease("one"), expect=403)
    client.call(
        "PATCH",
        space.core("configmaps", "one"),
        builders.config_map("one"),
        content_type=wire.APPLY_PATCH,
        fieldManager="contract",
        expect=403,
    )
    assert api.gone(lease) and api.gone(space.core("configmaps", "one"))
    # Here the name is known, so a right to create that name is enough.
    robot.allow(rule("create", "leases", group="coordination.k8s.io", names=["one"]))
    client.put(lease, builders.lease("one"), expect=201)
    client.put(space.of(LEASES, "leases", "two"), builders.lease("two"), expect=403)


def _wrong_fields(status: Any) -> set[str]:
    return {cause["field"] for cause in status["details"]["causes"]}


def test_finalize_checks_what_it_is_sent(api: Api, space: Space) -> None:
    path = f"/api/v1/namespaces/{space.name}"
    before = api.get(path)
    for wrong in ("abc", "example.com/", "../x", "a b/c", "", "x" * 300):
        body = before | {"spec": {"finalizers": ["kubernetes", wrong]}}
        assert _wrong_fields(api.put(f"{path}/finalize", body, expect=422)) == {"spec.finalizers[1]"}, wrong
    metadata = before["metadata"]
    finalizers = {"spec": {"finalizers": ["kubernetes", "example.com/held"]}}
    api.put(f"{path}/finalize", before | {"spec": {"finalizers": [7]}}, expect=400)
    api.put(f"{path}/finalize", before | finalizers | {"metadata": metadata | {"name": "other"}}, expect=400)
    api.put(f"{path}/finalize", before | finalizers | {"metadata": metadata | {"uid": "other"}}, expect=409)
    api.put(f"{path}/finalize", before | finalizers | {"metadata": metadata | {"labels": {"a b": "c"}}}, expect=422)
    api.put(f"{path}/finalize", before | finalizers | {"metadata": metadata | {"resourceVersion": "1"}}, expect=409)
    assert api.get(path) == before

    changed = api.put(f"{path}/finalize", before | finalizers | {"status": {"phase": "Terminating"}})
    assert changed["spec"] == finalizers["spec"]
    assert changed["status"] == before["status"]
    assert "deletionTimestamp" not in changed["metadata"]
    api.put(f"{path}/finalize", changed | {"spec": before["spec"]})


def test_metadata_is_checked_whichever_subresource_brings_it(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    status = space.core("pods", "one", "status")
    for wrong in (
        {"labels": {"not a label": "x"}},
        {"labels": {"x": "not a value!"}},
        {"annotations": {"not a key": "x"}},
        {"finalizers": ["nobody knows"]},
    ):
        answer = api.merge(status, {"metadata": wrong}, expect=422)
        assert all(field.startswith("metadata.") for field in _wrong_fields(answer)), wrong
    metadata = api.get(space.core("pods", "one"))["metadata"]
    assert not {"labels", "annotations", "finalizers"} & set(metadata)


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": {"name": "one", "annotations": {"a": 5}}},
        {"metadata": {"name": "one", "annotations": [["a", "b"]]}},
        {"metadata": {"name": "one", "labels": {"a": {}}}},
        {"metadata": {"name": "two"}},
        {"metadata": {}},
        {"kind": "Pod"},
        {"target": ["node-1"]},
        {"target": {"kind": "Node", "name": 5}},
    ],
)
def test_a_binding_must_be_a_binding(api: Api, space: Space, wrong: dict[str, Any]) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}, "target": {"name": "node-1"}}
    api.post(space.core("pods", "one", "binding"), binding | wrong, expect=400)
    assert "nodeName" not in api.get(space.core("pods", "one"))["spec"]


def test_a_binding_holds_for_the_version_it_names(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), builders.pod("one"))
    api.merge(space.core("pods", "one"), {"metadata": {"labels": {"a": "b"}}})
    metadata = {"name": "one", "resourceVersion": made["metadata"]["resourceVersion"]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"name": "node-1"}}
    api.post(space.core("pods", "one", "binding"), binding, expect=409)
    assert "nodeName" not in api.get(space.core("pods", "one"))["spec"]


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Team"])
def test_nobody_acts_as_themselves_who_asks_for_a_part_of_another(api: Api, space: Space, header: str) -> None:
    answer = api.send("POST", space.core("secrets"), builders.secret("one"), headers={header: "x"})
    assert answer.code >= 400
    assert api.gone(space.core("secrets", "one"))
