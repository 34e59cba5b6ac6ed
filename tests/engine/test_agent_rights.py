"""An agent, bound to its node by its token, touches its own LocalDisks and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests import engine_process
from tests.contract import builders, wire

DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/localpv-agent"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "localdisks.localpv.dev"},
    "spec": {
        "group": "localpv.dev",
        "scope": "Cluster",
        "names": {"plural": "localdisks", "singular": "localdisk", "kind": "LocalDisk"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.nodeName"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"nodeName": {"type": "string"}}},
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}


def disk(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "localpv.dev/v1alpha1",
        "kind": "LocalDisk",
        "metadata": {"name": name},
        "spec": {"nodeName": node},
    }


@pytest.fixture(scope="module")
def admin() -> Iterator[wire.Api]:
    with engine_process.running(options=["--node", "node-a"]) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        wire.eventually(lambda: client.send("GET", DISKS).code == 200, "LocalDisks are served")
        client.post("/api/v1/nodes", builders.node("node-b"))
        client.post(DISKS, disk("of-b", "node-b"))
        client.post(DISKS, disk("of-a", "node-a"))
        yield client
        client.close()


@pytest.fixture
def agent(admin: wire.Api) -> Iterator[wire.Api]:
    client = wire.Api(admin.target, token_for(admin, "node-a"))
    yield client
    client.close()


def token_for(admin: wire.Api, node: str) -> str:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node}},
    }
    token: str = admin.post(f"{ACCOUNT}/token", request)["status"]["token"]
    return token


def test_its_own_disks_it_creates_changes_and_deletes(agent: wire.Api) -> None:
    agent.post(DISKS, disk("mine", "node-a"))
    agent.merge(f"{DISKS}/mine", {"metadata": {"labels": {"a": "b"}}})
    agent.merge(f"{DISKS}/mine/status", {"status": {"phase": "Available"}})
    assert agent.get(f"{DISKS}/mine")["status"] == {"phase": "Available"}
    agent.delete(f"{DISKS}/mine")


def test_it_lists_and_watches_its_own_disks(agent: wire.Api) -> None:
    found = agent.get(DISKS, fieldSelector="spec.nodeName=node-a")
    assert [item["metadata"]["name"] for item in found["items"]] == ["of-a"]
    with agent.watch(DISKS, fieldSelector="spec.nodeName=node-a") as watch:
        assert watch.take(1) == [("ADDED", "of-a")]


@pytest.mark.parametrize("selector", ["", "spec.nodeName=node-b", "spec.nodeName!=node-b", "metadata.name=of-b"])
def test_it_lists_nothing_wider_than_its_node(agent: wire.Api, selector: str) -> None:
    agent.get(DISKS, expect=403, **({"fieldSelector": selector} if selector else {}))


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        (f"{DISKS}/of-b", "spec.nodeName=node-a"),
        ("/apis/localpv.dev/v1alpha1/watch/localdisks/of-b", "spec.nodeName=node-a"),
        ("/apis/localpv.dev/v1alpha1/watch/localdisks/of-b", "metadata.name=of-b,spec.nodeName=node-a"),
        ("/apis/localpv.dev/v1alpha1/watch/localdisks", "metadata.name=of-b,spec.nodeName=node-a"),
        (DISKS, "metadata.name=of-b,spec.nodeName=node-a"),
    ],
)
@pytest.mark.parametrize("initial", [{}, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}])
def test_a_watch_by_name_shows_no_disk_of_another_node(
    agent: wire.Api, path: str, selector: str, initial: dict[str, str]
) -> None:
    answer = agent.send("GET", path, watch="true", timeoutSeconds=1, fieldSelector=selector, **initial)
    assert answer.code in (200, 400, 403)
    assert b"of-b" not in answer.raw if answer.code == 200 else answer.body["kind"] == "Status"


def test_disks_of_another_node_are_out_of_reach(agent: wire.Api, admin: wire.Api) -> None:
    other = f"{DISKS}/of-b"
    before = admin.get(other)
    agent.get(other, expect=403)
    agent.merge(other, {"metadata": {"labels": {"a": "b"}}}, expect=403)
    agent.merge(f"{other}/status", {"status": {"phase": "Available"}}, expect=403)
    agent.call("PUT", other, before, expect=403)
    agent.delete(other, expect=403)
    agent.post(DISKS, disk("planted", "node-b"), expect=403)
    agent.call("DELETE", DISKS, expect=403)
    assert admin.get(other) == before
    assert admin.gone(f"{DISKS}/planted")


def test_a_disk_cannot_be_moved_to_another_node_nor_taken_from_one(agent: wire.Api) -> None:
    agent.merge(f"{DISKS}/of-a", {"spec": {"nodeName": "node-b"}}, expect=403)
    agent.merge(f"{DISKS}/of-b", {"spec": {"nodeName": "node-a"}}, expect=403)


def test_volumes_claims_secrets_and_other_nodes_are_none_of_its_business(agent: wire.Api) -> None:
    for path in (
        "/api/v1/persistentvolumes",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/secrets",
        "/api/v1/nodes",
        "/api/v1/nodes/node-b",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ):
        agent.get(path, expect=403)
    agent.post("/api/v1/persistentvolumes", builders.local_volume(), expect=403)
    assert agent.get("/api/v1/nodes/node-a")["metadata"]["name"] == "node-a"


def test_a_token_that_is_bound_to_no_node_gets_no_disk(admin: wire.Api) -> None:
    loose = wire.Api(
        admin.target,
        admin.post(f"{ACCOUNT}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})[
            "status"
        ]["token"],
    )
    loose.get(DISKS, fieldSelector="spec.nodeName=node-a", expect=403)
    loose.post(DISKS, disk("mine", "node-a"), expect=403)
    loose.close()


def test_the_token_ends_with_its_node(admin: wire.Api) -> None:
    admin.post("/api/v1/nodes", builders.node("node-c"))
    short = wire.Api(admin.target, token_for(admin, "node-c"))
    short.get(DISKS, fieldSelector="spec.nodeName=node-c")
    admin.delete("/api/v1/nodes/node-c")
    short.get(DISKS, fieldSelector="spec.nodeName=node-c", expect=401)
    short.close()


@pytest.mark.parametrize(("number", "token"), [*enumerate([None, "", "nonsense", "a.b.c"])])
def test_without_a_good_token_there_is_nothing_but_health_and_version(
    admin: wire.Api, number: int, token: str | None
) -> None:
    # All from one address would come close to the failed logins that it may have in a minute.
    stranger = wire.Api(admin.target, token, address=f"127.0.0.{2 + number}")
    for path in ("/api", "/apis", "/api/v1/namespaces", "/openapi/v2", "/", "/metrics", "/api/v1/namespaces/x"):
        assert stranger.send("GET", path).code == 401, path
    if token is None:
        for path in ("/livez", "/readyz", "/version"):
            assert stranger.send("GET", path).code == 200, path
    stranger.close()
