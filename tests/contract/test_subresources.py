"""Subresources: status, scale, binding, eviction, tokens of service accounts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

WORKLOADS = [("deployments", builders.deployment), ("statefulsets", builders.stateful_set)]


@pytest.mark.parametrize(("plural", "build"), WORKLOADS)
def test_scale_reads_and_writes_replicas(api: Api, space: Space, plural: str, build: Any) -> None:
    path = space.of("apps/v1", plural, "one")
    made = api.post(space.of("apps/v1", plural), build("one", replicas=2))
    scale = api.get(f"{path}/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=demo"}
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    scale["spec"]["replicas"] = 5
    assert api.put(f"{path}/scale", scale)["spec"] == {"replicas": 5}
    grown = api.get(path)
    assert (grown["spec"]["replicas"], grown["metadata"]["generation"]) == (5, 2)
    assert api.merge(f"{path}/scale", {"spec": {"replicas": 0}})["spec"] == {}
    assert api.get(path)["spec"]["replicas"] == 0


def test_scale_with_an_old_version_is_a_conflict(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments", "one")
    api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    scale = api.get(f"{path}/scale")
    api.merge(path, {"metadata": {"labels": {"a": "1"}}})
    scale["spec"]["replicas"] = 3
    assert api.put(f"{path}/scale", scale, expect=409)["reason"] == "Conflict"


@pytest.mark.parametrize("patch", [5, "x", True, {"spec": {"replicas": 1}}])
def test_json_patch_that_is_no_list_is_a_bad_request(api: Api, space: Space, patch: Any) -> None:
    path = space.of("apps/v1", "deployments", "one")
    api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    for subresource in ("", "/scale", "/status"):
        answer = api.send("PATCH", path + subresource, json.dumps(patch).encode(), content_type=wire.JSON_PATCH)
        assert (subresource, answer.code, answer.body["reason"]) == (subresource, 400, "BadRequest")


def test_json_patch_that_is_null_changes_nothing(api: Api, space: Space) -> None:
    path = space.of("apps/v1", "deployments", "one")
    made = api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    for subresource in ("", "/scale", "/status"):
        patched = api.send("PATCH", path + subresource, b"null", content_type=wire.JSON_PATCH)
        assert (patched.code, patched.body["metadata"]["uid"]) == (200, made["metadata"]["uid"])
    assert api.get(path)["metadata"]["generation"] == 1


def test_negative_scale_is_refused(api: Api, space: Space) -> None:
    api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    path = space.of("apps/v1", "deployments", "one", "scale")
    status = api.merge(path, {"spec": {"replicas": -1}}, expect=422)
    assert ("FieldValueInvalid", "spec.replicas") in wire.causes(status)


def test_pod_status_and_spec_are_written_apart(api: Api, space: Space) -> None:
    path = space.core("pods", "one")
    made = api.post(space.core("pods"), builders.pod("one") | {"status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "BestEffort"
    patched = api.merge(f"{path}/status", {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "1"}}})
    assert patched["status"]["phase"] == "Running"
    assert api.get(f"{path}/status")["status"]["phase"] == "Running"
    assert api.merge(path, {"status": {"phase": "Failed"}})["status"]["phase"] == "Running"


def test_phase_of_a_volume_is_status(api: Api) -> None:
    made = api.post("/api/v1/persistentvolumes", builders.local_volume() | {"status": {"phase": "Bound"}})
    assert made["status"]["phase"] == "Pending"
    path = f"/api/v1/persistentvolumes/{made['metadata']['name']}"
    available = api.merge(f"{path}/status", {"status": {"phase": "Available"}})
    assert available["status"]["phase"] == "Available"
    assert available["status"]["lastPhaseTransitionTime"]
    api.merge(path, {"status": {"phase": "Failed"}})
    assert api.get(path)["status"]["phase"] == "Available"


def test_binding_puts_a_pod_on_a_node_once(api: Api, space: Space) -> None:
    path = space.core("pods", "one")
    api.post(space.core("pods"), builders.pod("one"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "one", "annotations": {"bound": "yes"}},
        "target": {"kind": "Node", "name": "node-1"},
    }
    status = api.post(f"{path}/binding", binding, expect=201)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Success", 201)
    bound = api.get(path)
    assert bound["spec"]["nodeName"] == "node-1"
    assert bound["metadata"]["annotations"]["bound"] == "yes"
    assert bound["metadata"]["generation"] == 1
    scheduled = next(entry for entry in bound["status"]["conditions"] if entry["type"] == "PodScheduled")
    assert scheduled["status"] == "True"
    again = api.post(f"{path}/binding", binding, expect=409)
    assert again["reason"] == "Conflict"
    assert 'pod one is already assigned to node "node-1"' in again["message"]


def test_binding_through_the_collection(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    api.post(space.core("bindings"), {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "node-2"}})
    assert api.get(space.core("pods", "one"))["spec"]["nodeName"] == "node-2"


def test_binding_needs_a_target(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    body = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": ""}}
    answer = api.send("POST", space.core("pods", "one", "binding"), body)
    # Kubernetes answers 500 here; what matters is that the pod stays where it is and that the field is named.
    assert answer.code >= 400
    assert "target.name: Required value" in answer.body["message"]
    assert "nodeName" not in api.get(space.core("pods", "one"))["spec"]


def test_eviction_deletes_the_pod(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}
    status = api.post(space.core("pods", "one", "eviction"), eviction, expect=201)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert api.gone(space.core("pods", "one"))


def test_pod_that_is_evicted_says_so_while_it_ends(api: Api, space: Space) -> None:
    path = space.core("pods", "one")
    made = api.post(space.core("pods"), builders.pod("one") | {"metadata": {"name": "one", "finalizers": ["a.b/c"]}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}
    other = eviction | {"deleteOptions": {"preconditions": {"uid": "another"}}}
    assert api.post(f"{path}/eviction", other, expect=409)["reason"] == "Conflict"
    assert not api.get(path)["status"].get("conditions")
    version = {
        "preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    }
    api.post(f"{path}/eviction", eviction | {"deleteOptions": version}, expect=201)
    ending = api.get(path)
    assert ending["metadata"]["deletionTimestamp"]
    told = next(one for one in ending["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert (told["status"], told["reason"]) == ("True", "EvictionByEvictionAPI")
    api.merge(path, {"metadata": {"finalizers": []}})
    assert api.gone(path)


def test_eviction_of_a_missing_pod_is_not_found(api: Api, space: Space) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}
    assert api.post(space.core("pods", "one", "eviction"), eviction, expect=404)["reason"] == "NotFound"


def test_token_enters_as_its_service_account(api: Api, space: Space) -> None:
    account = api.post(space.core("serviceaccounts"), builders.service_account("robot"))
    asked = {"spec": {"expirationSeconds": 3600}}
    answer = api.post(space.core("serviceaccounts", "robot", "token"), asked, expect=201)
    assert (answer["kind"], answer["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert answer["status"]["expirationTimestamp"].endswith("Z")
    token = answer["status"]["token"]
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["sub"] == f"system:serviceaccount:{space.name}:robot"
    assert claims["exp"] - claims["iat"] in range(3590, 3700)
    assert claims["kubernetes.io"]["serviceaccount"] == {"name": "robot", "uid": account["metadata"]["uid"]}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user = api.as_bearer(token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{space.name}:robot"
    assert set(user["groups"]) == {
        "system:serviceaccounts",
        f"system:serviceaccounts:{space.name}",
        "system:authenticated",
    }


def test_token_bound_to_a_node_names_it(api: Api, space: Space) -> None:
    api.post(space.core("serviceaccounts"), builders.service_account("robot"))
    node = api.post("/api/v1/nodes", builders.node())
    reference = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
    asked = {"spec": {"boundObjectRef": reference}}
    token = api.post(space.core("serviceaccounts", "robot", "token"), asked)["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user = api.as_bearer(token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]
    assert user["extra"]["authentication.kubernetes.io/node-name"] == [node["metadata"]["name"]]


def test_token_dies_with_its_account(api: Api, space: Space) -> None:
    api.post(space.core("serviceaccounts"), builders.service_account("robot"))
    token = api.post(space.core("serviceaccounts", "robot", "token"), {"spec": {}})["status"]["token"]
    api.delete(space.core("serviceaccounts", "robot"))
    robot = api.as_bearer(token)
    # kube-apiserver hears of the deletion a moment later, and remembers for ten seconds that a token was good.
    wire.eventually(lambda: robot.send("GET", "/api").code == 401, "the token is no longer good")
    assert robot.get("/api", expect=401)["reason"] == "Unauthorized"


def test_token_lives_ten_minutes_at_least(api: Api, space: Space) -> None:
    api.post(space.core("serviceaccounts"), builders.service_account("robot"))
    asked = {"spec": {"expirationSeconds": 60}}
    status = api.post(space.core("serviceaccounts", "robot", "token"), asked, expect=422)
    assert ("FieldValueInvalid", "spec.expirationSeconds") in wire.causes(status)


def test_subresource_of_a_missing_object_is_not_found(api: Api, space: Space) -> None:
    status = api.get(space.of("apps/v1", "deployments", "missing", "scale"), expect=404)
    assert status["message"] == 'deployments.apps "missing" not found'


def test_kinds_without_status_have_no_such_path(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    assert api.get(space.core("configmaps", "one", "status"), expect=404)["reason"] == "NotFound"


def test_namespace_is_finalized_by_its_own_subresource(api: Api) -> None:
    body = builders.namespace()
    made = api.post("/api/v1/namespaces", body)
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert made["status"]["phase"] == "Active"
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == made["metadata"]["name"]
