"""The columns that kubectl shows for each kind."""

from __future__ import annotations

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

COLUMNS = {
    "/api/v1/namespaces": "Name Status Age",
    "/api/v1/nodes": (
        "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*"
    ),
    "/api/v1/persistentvolumes": (
        "Name Capacity Access-Modes Reclaim-Policy Status Claim StorageClass VolumeAttributesClass Reason Age "
        "VolumeMode*"
    ),
    "/api/v1/pods": "Name Ready Status Restarts Age IP* Node* Nominated-Node* Readiness-Gates*",
    "/api/v1/persistentvolumeclaims": (
        "Name Status Volume Capacity Access-Modes StorageClass VolumeAttributesClass Age VolumeMode*"
    ),
    "/api/v1/configmaps": "Name Data Age",
    "/api/v1/secrets": "Name Type Data Age",
    "/api/v1/serviceaccounts": "Name Age",
    "/api/v1/services": "Name Type Cluster-IP External-IP Port(s) Age Selector*",
    "/api/v1/events": "Last-Seen Type Reason Object Subobject* Source* Message First-Seen* Count* Name*",
    "/apis/events.k8s.io/v1/events": "Last-Seen Type Reason Object Subobject* Source* Message First-Seen* Count* Name*",
    "/apis/storage.k8s.io/v1/storageclasses": (
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age"
    ),
    "/apis/storage.k8s.io/v1/csidrivers": (
        "Name AttachRequired PodInfoOnMount StorageCapacity TokenRequests RequiresRepublish Modes Age"
    ),
    "/apis/storage.k8s.io/v1/csinodes": "Name Drivers Age",
    "/apis/storage.k8s.io/v1/csistoragecapacities": "Name Created-At",
    "/apis/storage.k8s.io/v1/volumeattachments": "Name Attacher PV Node Attached Age",
    "/apis/apps/v1/deployments": "Name Ready Up-to-date Available Age Containers* Images* Selector*",
    "/apis/apps/v1/statefulsets": "Name Ready Age Containers* Images*",
    "/apis/apps/v1/replicasets": "Name Desired Current Ready Age Containers* Images* Selector*",
    "/apis/apps/v1/daemonsets": (
        "Name Desired Current Ready Up-to-date Available Node-Selector Age Containers* Images* Selector*"
    ),
    "/apis/batch/v1/jobs": "Name Status Completions Duration Age Containers* Images* Selector*",
    "/apis/coordination.k8s.io/v1/leases": "Name Holder Age",
    "/apis/rbac.authorization.k8s.io/v1/roles": "Name Created-At",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings": "Name Role Age Users* Groups* ServiceAccounts*",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "Name Created-At",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": "Name Role Age Users* Groups* ServiceAccounts*",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": "Name Validations ParamKind Age",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name Created-At",
}
"""Blanks inside a name are written as dashes; a star marks a column of `-o wide`."""


@pytest.mark.parametrize("path", COLUMNS)
def test_columns(api: Api, path: str) -> None:
    table = api.get(path, accept=wire.TABLE, limit=1)
    found = [
        column["name"].replace(" ", "-") + ("*" if column["priority"] else "") for column in table["columnDefinitions"]
    ]
    assert " ".join(found) == COLUMNS[path]


def test_cells_of_a_volume(api: Api) -> None:
    made = api.post("/api/v1/persistentvolumes", builders.local_volume())
    name = made["metadata"]["name"]
    table = api.get(f"/api/v1/persistentvolumes/{name}", accept=wire.TABLE)
    cells = table["rows"][0]["cells"]
    assert cells[:4] == [name, "10Gi", "RWO", "Delete"]
    assert cells[4] in ("Pending", "Available")
    assert cells[5:9] == ["", "contract", "<unset>", ""]
    assert cells[10] == "Filesystem"


def test_cells_of_a_claim(api: Api, space: Space) -> None:
    api.post(space.core("persistentvolumeclaims"), builders.claim("one"))
    table = api.get(space.core("persistentvolumeclaims", "one"), accept=wire.TABLE)
    cells = table["rows"][0]["cells"]
    assert cells[:7] == ["one", "Pending", "", "", "", "contract", "<unset>"]
    assert cells[8] == "Filesystem"


def test_cells_of_a_pod(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one", spec={"nodeName": "node-1"}))
    cells = api.get(space.core("pods", "one"), accept=wire.TABLE)["rows"][0]["cells"]
    assert cells[:4] == ["one", "0/1", "Pending", "0"]
    assert cells[5:9] == ["<none>", "node-1", "<none>", "<none>"]


def test_cells_of_a_pod_that_goes(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one", spec={"nodeName": "node-1"}))
    api.merge(space.core("pods", "one", "status"), {"status": {"phase": "Running"}})
    api.delete(space.core("pods", "one"))
    assert api.get(space.core("pods", "one"), accept=wire.TABLE)["rows"][0]["cells"][2] == "Terminating"


def test_cells_of_a_storage_class(api: Api) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "false"}
    body = builders.storage_class(volumeBindingMode="WaitForFirstConsumer")
    body["metadata"]["annotations"] = annotations
    name = api.post("/apis/storage.k8s.io/v1/storageclasses", body)["metadata"]["name"]
    table = api.get(f"/apis/storage.k8s.io/v1/storageclasses/{name}", accept=wire.TABLE)
    wanted = [name, "kubernetes.io/no-provisioner", "Delete", "WaitForFirstConsumer", False]
    assert table["rows"][0]["cells"][:5] == wanted


def test_cells_of_a_deployment_and_a_stateful_set(api: Api, space: Space) -> None:
    api.post(space.of("apps/v1", "deployments"), builders.deployment("one", replicas=2))
    cells = api.get(space.of("apps/v1", "deployments", "one"), accept=wire.TABLE)["rows"][0]["cells"]
    assert cells[:4] == ["one", "0/2", 0, 0]
    assert cells[5:] == ["main", "registry.invalid/app:1", "app=demo"]
    api.post(space.of("apps/v1", "statefulsets"), builders.stateful_set("one", replicas=2))
    cells = api.get(space.of("apps/v1", "statefulsets", "one"), accept=wire.TABLE)["rows"][0]["cells"]
    assert cells[:2] == ["one", "0/2"]


def test_age_is_a_short_duration(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    age = api.get(space.core("configmaps", "one"), accept=wire.TABLE)["rows"][0]["cells"][2]
    assert age.endswith("s")


def test_a_review_is_no_table(api: Api) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    refused = api.send("POST", path, review, accept=wire.TABLE)
    assert (refused.code, refused.body["reason"]) == (406, "NotAcceptable")
    answered = api.send("POST", path, review, accept=f"{wire.TABLE},application/json")
    assert (answered.code, answered.body["kind"]) == (201, "SelfSubjectAccessReview")
