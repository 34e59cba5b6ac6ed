"""The operator as a process: alone, and as part of a manager."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import engine_process
from tests.contract import wire
from tests.journey.test_programs import program

from localpv.api import crds

STORAGES = "/apis/local.storage.openshift.com/v1alpha1/namespaces/default/localstorages"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.seed("OPR-4", "OPR-11")
@pytest.mark.parametrize("name", ["operator", "manager"])
def test_a_localstorage_is_served_with_the_image_that_the_program_is_given(name: str, tmp_path: Path) -> None:
    storage = {
        "apiVersion": "local.storage.openshift.com/v1alpha1",
        "kind": "LocalStorage",
        "metadata": {"name": "local"},
        "spec": {"nodes": [{"devices": [{"storageClassName": "fast", "deviceNames": ["sd[b-z]"]}]}]},
    }
    (tmp_path / "config").mkdir()
    with engine_process.running(data=tmp_path / "data", options=["--node", "node-1"]) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        api = wire.Api(target, target.token)
        for each in crds.NAMES:
            api.post(DEFINITIONS, crds.load(each))
        wire.eventually(lambda: api.send("GET", STORAGES).code == 200, "the kind is served")
        options = ["--kubeconfig", str(engine.kubeconfig), "--namespace", "default"]
        options += ["--config", str(tmp_path / "config")] if name == "manager" else []

        def images() -> set[str]:
            sets = api.get(DAEMON_SETS)["items"]
            return {each["image"] for one in sets for each in one["spec"]["template"]["spec"]["containers"]}

        with program(name, *options, "--image", "localpv:1", folder=tmp_path):
            api.post(STORAGES, storage)
            wire.eventually(lambda: images() == {"localpv:1"}, "pods of the image")
        with program(name, *options, "--image", "localpv:2", folder=tmp_path):
            wire.eventually(lambda: images() == {"localpv:2"}, "pods of the new image")
            api.delete(f"{STORAGES}/local")
            wire.eventually(lambda: api.gone(f"{STORAGES}/local"), "the LocalStorage goes")
        assert images() == set()
        api.close()
