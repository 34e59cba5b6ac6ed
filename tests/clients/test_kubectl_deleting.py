"""kubectl, unchanged, as people delete and wait with it."""

from __future__ import annotations

import pytest
from tests.clients.conftest import CONFIG, Kubectl
from tests.contract import builders, wire
from tests.contract.wire import Api

FINALIZER = "contract.localpv.dev/wait"


def test_delete_waits_for_finalizers(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("configmaps"), builders.config_map("held", finalizers=[FINALIZER]))
    path = kubectl.space.core("configmaps", "held")
    with kubectl.started("delete", "cm", "held", "--wait", "--timeout=100s") as deletion:
        wire.eventually(lambda: "deletionTimestamp" in api.get(path)["metadata"], "the deletion was asked for")
        assert deletion.running
        api.merge(path, {"metadata": {"finalizers": None}})
        assert deletion.end().startswith('configmap "held" deleted')


def test_delete_by_label_and_of_what_is_missing(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", stdin=CONFIG)
    assert kubectl("delete", "cm", "--selector=app=demo").startswith('configmap "settings" deleted')
    assert "NotFound" in kubectl("delete", "cm", "settings", expect=1)
    assert kubectl("delete", "cm", "settings", "--ignore-not-found") == ""


def test_delete_now_and_by_file(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("pods"), builders.pod("p", spec={"nodeName": "node-1"}))
    api.merge(kubectl.space.core("pods", "p", "status"), {"status": {"phase": "Running"}})
    assert 'pod "p" force deleted' in kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    kubectl("apply", "--filename=-", stdin=CONFIG)
    assert 'configmap "settings" deleted' in kubectl("delete", "--filename=-", stdin=CONFIG)


@pytest.mark.controllers
def test_delete_of_a_namespace_waits_until_it_is_empty(kubectl: Kubectl) -> None:
    name = builders.unique("short")
    kubectl("create", "namespace", name)
    kubectl("create", "configmap", "c", f"--namespace={name}")
    assert f'namespace "{name}" deleted' in kubectl("delete", "namespace", name, "--timeout=100s")
    assert "NotFound" in kubectl("get", "namespace", name, expect=1)


def test_wait_for_condition_value_creation_and_deletion(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("pods"), builders.pod("p"))
    status = kubectl.space.core("pods", "p", "status")
    with (
        kubectl.started("wait", "pod/p", "--for=condition=Ready", "--timeout=100s") as ready,
        kubectl.started("wait", "pod/p", "--for=jsonpath={.status.phase}=Running", "--timeout=100s") as runs,
        kubectl.started("wait", "cm/later", "--for=create", "--timeout=100s") as created,
    ):
        condition = {"type": "Ready", "status": "True"}
        api.strategic(status, {"status": {"phase": "Running", "conditions": [condition]}})
        api.post(kubectl.space.core("configmaps"), builders.config_map("later"))
        assert all("condition met" in wait.end() for wait in (ready, runs, created))
    with kubectl.started("wait", "cm/later", "--for=delete", "--timeout=100s") as deleted:
        api.delete(kubectl.space.core("configmaps", "later"))
        deleted.end()


def test_wait_gives_up(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("pods"), builders.pod("p"))
    said = kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=10s", expect=1)
    assert "timed out waiting for the condition" in said
