"""Who may do what: tokens with few rights, the reviews that tell, and escalation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.builders import rule
from tests.contract.spaces import Space
from tests.contract.wire import Api

RBAC = "rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


@pytest.fixture
def robot(api: Api, space: Space) -> Api:
    """A service account without any rights of its own."""
    api.post(space.core("serviceaccounts"), builders.service_account("robot"))
    token = api.post(space.core("serviceaccounts", "robot", "token"), {"spec": {}})["status"]["token"]
    return api.as_bearer(token)


def _subject(space: Space) -> builders.Object:
    return {"kind": "ServiceAccount", "name": "robot", "namespace": space.name}


def _allow(api: Api, robot: Api, space: Space, *rules: builders.Object) -> None:
    """Grant the rules inside the namespace, and wait until the server acts on them."""
    name = api.post(space.of(RBAC, "roles"), builders.role(None, *rules))["metadata"]["name"]
    api.post(space.of(RBAC, "rolebindings"), builders.role_binding(name, _subject(space)))
    first = rules[0]
    attributes = {
        "namespace": space.name,
        "verb": first["verbs"][0],
        "group": first["apiGroups"][0],
        "resource": first["resources"][0].split("/")[0],
        "subresource": first["resources"][0].partition("/")[2],
        "name": (first.get("resourceNames") or [""])[0],
    }
    wire.eventually(lambda: _may(robot, attributes), "the new right is in force")


def _may(client: Api, attributes: Any) -> bool:
    body = {"spec": {"resourceAttributes": attributes}}
    return bool(client.post(f"{REVIEWS}/selfsubjectaccessreviews", body)["status"]["allowed"])


def test_no_token_and_a_wrong_token_are_unauthorized(api: Api, space: Space) -> None:
    status = api.as_bearer("nonsense").get(space.core("configmaps"), expect=401)
    assert (status["reason"], status["message"]) == ("Unauthorized", "Unauthorized")
    assert api.as_bearer(None).send("GET", space.core("configmaps")).code in (401, 403)


def test_refusal_names_user_verb_and_resource(api: Api, space: Space, robot: Api) -> None:
    status = robot.get(space.core("configmaps", "one"), expect=403)
    user = f"system:serviceaccount:{space.name}:robot"
    assert status["reason"] == "Forbidden"
    assert status["details"] == {"name": "one", "kind": "configmaps"}
    assert status["message"] == (
        f'configmaps "one" is forbidden: User "{user}" cannot get resource "configmaps" '
        f'in API group "" in the namespace "{space.name}"'
    )


def test_refusal_of_a_list_in_a_group(api: Api, space: Space, robot: Api) -> None:
    status = robot.get("/apis/apps/v1/deployments", expect=403)
    user = f"system:serviceaccount:{space.name}:robot"
    assert status["message"] == (
        f'deployments.apps is forbidden: User "{user}" cannot list resource "deployments" '
        'in API group "apps" at the cluster scope'
    )


def test_refusal_of_a_subresource_and_of_a_path(api: Api, space: Space, robot: Api) -> None:
    status = robot.post(space.core("pods", "one", "binding"), {"metadata": {"name": "one"}}, expect=403)
    assert 'cannot create resource "pods/binding"' in status["message"]
    status = robot.get("/metrics", expect=403)
    assert status["message"].endswith('cannot get path "/metrics"')


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/version", "/openapi/v2", "/openapi/v3"]
)
def test_discovery_is_open_to_every_known_user(robot: Api, path: str) -> None:
    assert robot.send("GET", path).code == 200


def test_role_allows_what_it_names_in_its_namespace_alone(api: Api, space: Space, robot: Api) -> None:
    _allow(api, robot, space, rule("get list watch create", "configmaps"))
    robot.post(space.core("configmaps"), builders.config_map("one"), expect=201)
    robot.get(space.core("configmaps", "one"))
    robot.get(space.core("configmaps"))
    robot.delete(space.core("configmaps", "one"), expect=403)
    robot.get(space.core("secrets"), expect=403)
    robot.get(Space("default").core("configmaps"), expect=403)
    robot.get("/api/v1/configmaps", expect=403)


def test_rights_are_checked_before_existence(api: Api, space: Space, robot: Api) -> None:
    robot.get(space.core("configmaps", "missing"), expect=403)
    _allow(api, robot, space, rule("get", "configmaps"))
    robot.get(space.core("configmaps", "missing"), expect=404)


def test_right_to_one_name(api: Api, space: Space, robot: Api) -> None:
    for name in ("mine", "yours"):
        api.post(space.core("configmaps"), builders.config_map(name))
    _allow(api, robot, space, rule("get list", "configmaps", names=["mine"]))
    robot.get(space.core("configmaps", "mine"))
    robot.get(space.core("configmaps", "yours"), expect=403)
    robot.get(space.core("configmaps"), expect=403)
    listing = robot.get(space.core("configmaps"), fieldSelector="metadata.name=mine")
    assert [item["metadata"]["name"] for item in listing["items"]] == ["mine"]


def test_subresource_is_a_right_of_its_own(api: Api, space: Space, robot: Api) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    _allow(api, robot, space, rule("patch", "pods/status"))
    robot.merge(space.core("pods", "one", "status"), {"status": {"phase": "Running"}})
    robot.merge(space.core("pods", "one"), {"metadata": {"labels": {"a": "1"}}}, expect=403)


@pytest.mark.parametrize(
    ("method", "tail", "verb"),
    [
        ("PUT", "/one", "update"),
        ("PATCH", "/one", "patch"),
        ("DELETE", "/one", "delete"),
        ("DELETE", "", "deletecollection"),
    ],
)
def test_method_becomes_verb(space: Space, robot: Api, method: str, tail: str, verb: str) -> None:
    kind = wire.MERGE_PATCH if method == "PATCH" else "application/json"
    body: Any = None if method == "DELETE" else {}
    status = robot.call(method, space.core("configmaps") + tail, body, content_type=kind, expect=403)
    assert f'cannot {verb} resource "configmaps"' in status["message"]


def test_watch_is_a_verb_of_its_own(space: Space, robot: Api) -> None:
    with robot.watch(space.core("configmaps")) as watch:
        assert watch.code == 403
        assert 'cannot watch resource "configmaps"' in watch.status()["message"]


def test_cluster_role_bound_in_a_namespace(api: Api, space: Space, robot: Api) -> None:
    role = {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": builders.metadata(),
        "rules": [rule("list", "configmaps")],
    }
    name = api.post(f"/apis/{RBAC}/clusterroles", role)["metadata"]["name"]
    api.post(space.of(RBAC, "rolebindings"), builders.role_binding(name, _subject(space), kind="ClusterRole"))
    wire.eventually(lambda: robot.send("GET", space.core("configmaps")).code == 200, "the binding is in force")
    robot.get("/api/v1/configmaps", expect=403)


def test_cluster_role_bound_everywhere(api: Api, space: Space, robot: Api) -> None:
    role = {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": builders.metadata(),
        "rules": [rule("*", "*", group="*"), {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    name = api.post(f"/apis/{RBAC}/clusterroles", role)["metadata"]["name"]
    binding = builders.role_binding(name, _subject(space), kind="ClusterRole") | {"kind": "ClusterRoleBinding"}
    made = api.post(f"/apis/{RBAC}/clusterrolebindings", binding)
    wire.eventually(lambda: robot.send("GET", "/api/v1/persistentvolumes").code == 200, "the binding is in force")
    api.delete(f"/apis/{RBAC}/clusterrolebindings/{made['metadata']['name']}")
    wire.eventually(lambda: robot.send("GET", "/api/v1/persistentvolumes").code == 403, "the right is taken back")


def test_role_reference_stays(api: Api, space: Space) -> None:
    made = api.post(space.of(RBAC, "rolebindings"), builders.role_binding("some", _subject(space)))
    made["roleRef"]["name"] = "other"
    status = api.put(space.of(RBAC, "rolebindings", made["metadata"]["name"]), made, expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "roleRef")]


def test_nobody_grants_more_than_they_have(api: Api, space: Space, robot: Api) -> None:
    _allow(api, robot, space, rule("create", "roles", group="rbac.authorization.k8s.io"), rule("get", "configmaps"))
    robot.post(space.of(RBAC, "roles"), builders.role("same", rule("get", "configmaps")), expect=201)
    status = robot.post(space.of(RBAC, "roles"), builders.role("more", rule("get", "secrets")), expect=403)
    assert status["reason"] == "Forbidden"
    assert 'Resources:["secrets"], Verbs:["get"]' in status["message"]


def test_self_review_and_subject_review(api: Api, space: Space, robot: Api) -> None:
    attributes = {"namespace": space.name, "verb": "get", "resource": "secrets"}
    answer = robot.post(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}, expect=201)
    assert (answer["kind"], answer["status"]["allowed"]) == ("SelfSubjectAccessReview", False)
    assert _may(api, attributes)
    asked = {"user": f"system:serviceaccount:{space.name}:robot", "resourceAttributes": attributes}
    review = api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": asked})
    assert review["status"]["allowed"] is False
    paths = {"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}}
    assert robot.post(f"{REVIEWS}/selfsubjectaccessreviews", paths)["status"]["allowed"] is True


def test_rules_review_lists_the_rights(api: Api, space: Space, robot: Api) -> None:
    _allow(api, robot, space, rule("get list", "configmaps"))
    answer = robot.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": space.name}})
    rules = [(entry["verbs"], entry["resources"]) for entry in answer["status"]["resourceRules"]]
    assert (["get", "list"], ["configmaps"]) in rules


def test_token_review(api: Api, space: Space, robot: Api) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    good = api.post(path, {"spec": {"token": robot.token}})["status"]
    assert good["authenticated"] is True
    assert good["user"]["username"] == f"system:serviceaccount:{space.name}:robot"
    assert not api.post(path, {"spec": {"token": "nonsense"}})["status"].get("authenticated")


def test_impersonation_needs_the_right(api: Api, space: Space, robot: Api) -> None:
    headers = {"Impersonate-User": "jane"}
    status = api.get(space.core("secrets"), headers=headers, expect=403)
    assert 'User "jane" cannot list resource "secrets"' in status["message"]
    status = robot.get(space.core("secrets"), headers=headers, expect=403)
    assert 'cannot impersonate resource "users"' in status["message"]
