"""Who may do what with LocalStorages and with what nodes say about them, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.contract import builders, custom, wire
from tests.contract.wire import Api

from localpv.api import crds, roles
from localpv.deploy import access, policy

STORAGES = "/apis/local.storage.openshift.com/v1alpha1/localstorages"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two nodes, and the discoverer of the first."""

    admin: Api
    discoverer: Api
    space: str
    mine: str
    other: str

    @property
    def reports(self) -> str:
        return f"/apis/localpv.dev/v1alpha1/namespaces/{self.space}/localstoragenodes"

    def report(self, node: str) -> dict[str, Any]:
        return {
            "apiVersion": "localpv.dev/v1alpha1",
            "kind": "LocalStorageNode",
            "metadata": builders.metadata(),
            "spec": {"nodeName": node, "localStorageName": "local", "localStorageUID": "u"},
        }


@pytest.fixture(scope="module")
def world(target: wire.Target) -> Iterator[World]:
    admin = Api(target, target.token)
    kept: list[str] = []
    try:
        for name in crds.NAMES:
            definition = crds.load(name)
            path = f"{custom.DEFINITIONS}/{definition['metadata']['name']}"
            if admin.send("GET", path).code != 200:
                custom.define(admin, definition)
            kept.append(path)
        space = admin.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"]
        accounts = f"/api/v1/namespaces/{space}/serviceaccounts"
        admin.post(accounts, access.service_account(space, roles.DISCOVERER))
        role = roles.role(roles.DISCOVERER, *roles.discoverer())
        answer = admin.send("POST", f"{RBAC}/clusterroles", role)
        assert answer.code in (201, 409), answer.raw
        assert admin.get(f"{RBAC}/clusterroles/{roles.DISCOVERER}")["rules"] == role["rules"]
        subject = roles.service_account_subject(space, roles.DISCOVERER)
        name = builders.unique(roles.DISCOVERER)
        admin.post(f"{RBAC}/clusterrolebindings", roles.binding(name, roles.DISCOVERER, subject))
        for obj in policy.objects(namespace=space, account=roles.DISCOVERER, name=name):
            plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
                obj["kind"], "validatingadmissionpolicybindings"
            )
            admin.post(f"{ADMISSION}/{plural}", obj)
        mine, other = (admin.post("/api/v1/nodes", builders.node())["metadata"]["name"] for _ in range(2))
        bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": mine}}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": bound}
        token = admin.post(f"{accounts}/{roles.DISCOVERER}/token", request)["status"]["token"]
        made = World(admin=admin, discoverer=admin.as_bearer(token), space=space, mine=mine, other=other)
        wire.eventually(
            lambda: (
                made.discoverer.send("POST", made.reports, made.report(mine), dryRun="All").code == 201
                and made.discoverer.send("POST", made.reports, made.report(other), dryRun="All").code == 403
            ),
            "the discoverer's rights and limits are in force",
        )
        yield made
    finally:
        # Others on a shared server may have begun to use the kinds.
        admin.created[:] = [path for path in admin.created if path not in kept]
        admin.clean_up()
        admin.close()


@pytest.mark.seed("OPR-12")
def test_a_discoverer_reports_on_its_own_node(world: World) -> None:
    made = world.discoverer.post(world.reports, world.report(world.mine))
    path = f"{world.reports}/{made['metadata']['name']}"
    world.discoverer.merge(f"{path}/status", {"status": {"generation": 2, "matched": 1}})
    assert world.discoverer.get(path)["status"] == {"generation": 2, "matched": 1}
    world.discoverer.delete(path)
    assert world.admin.gone(path)


@pytest.mark.seed("OPR-12")
def test_reports_of_another_node_are_neither_forged_nor_changed_nor_deleted(world: World) -> None:
    world.discoverer.post(world.reports, world.report(world.other), expect=403)
    theirs = world.admin.post(world.reports, world.report(world.other))
    path = f"{world.reports}/{theirs['metadata']['name']}"
    world.discoverer.merge(f"{path}/status", {"status": {"error": "forged"}}, expect=403)
    world.discoverer.merge(path, {"metadata": {"labels": {"a": "b"}}}, expect=403)
    refused = world.discoverer.delete(path, expect=403)
    assert "LocalStorageNode is of node" in refused["message"]
    assert world.admin.get(path) == theirs


def test_a_discoverer_writes_no_localstorage_volume_or_pod(world: World) -> None:
    storage = {
        "apiVersion": "local.storage.openshift.com/v1alpha1",
        "kind": "LocalStorage",
        "metadata": builders.metadata(),
        "spec": {"nodes": [{"devices": [{"storageClassName": "fast", "deviceNames": ["sdb"]}]}]},
    }
    space = f"/apis/local.storage.openshift.com/v1alpha1/namespaces/{world.space}/localstorages"
    made = world.admin.post(space, storage)
    path = f"{space}/{made['metadata']['name']}"
    assert world.discoverer.get(path)["spec"] == made["spec"]
    world.discoverer.post(space, storage | {"metadata": builders.metadata()}, expect=403)
    world.discoverer.merge(path, {"spec": {"storageClasses": ["x"]}}, expect=403)
    world.discoverer.merge(f"{path}/status", {"status": {"nodeCount": 1}}, expect=403)
    world.discoverer.delete(path, expect=403)
    world.discoverer.post("/api/v1/persistentvolumes", builders.local_volume(), expect=403)
    world.discoverer.post(f"/api/v1/namespaces/{world.space}/pods", builders.pod(), expect=403)
    world.discoverer.get(f"/api/v1/namespaces/{world.space}/configmaps", expect=403)


@pytest.mark.seed("OPR-15")
@pytest.mark.parametrize("role", ["admin", "edit", "view"])
def test_people_with_a_namespace_get_no_localstorages(world: World, role: str) -> None:
    user = builders.unique("somebody")
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    bindings = f"{RBAC}/namespaces/{world.space}/rolebindings"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": builders.metadata(), "roleRef": reference, "subjects": [subject]}
    world.admin.post(bindings, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", **binding})

    def may(verb: str, group: str, resource: str) -> bool:
        asked = {"verb": verb, "group": group, "resource": resource, "namespace": world.space}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        answer = world.admin.post(REVIEWS, {**review, "spec": {"user": user, "resourceAttributes": asked}})
        return bool(answer["status"]["allowed"])

    wire.eventually(lambda: may("get", "", "configmaps"), "the role is in force")
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete"):
        assert not may(verb, "local.storage.openshift.com", "localstorages")
        assert not may(verb, "localpv.dev", "localstoragenodes")
