"""`localpv manager` as a process: classes of LocalStorages are published beside those of its configuration."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engine_process, forked_programs
from tests.contract import wire

from localpv.api import crds
from localpv.disk.records.names import disk_name
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.seed("OPR-7", "OPR-10")

NODE, SPACE = "node-1", "kube-system"
STORAGES = f"/apis/local.storage.openshift.com/v1alpha1/namespaces/{SPACE}/localstorages"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
VOLUMES = "/api/v1/persistentvolumes"
LINKS = "/dev/disk/kubernetes-local-storage"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[wire.Api]:
    with engine_process.running(data=tmp_path / "data", options=("--node", NODE)) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        made = wire.Api(target, target.token)
        for name in crds.NAMES:
            made.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crds.load(name))
        for path in (STORAGES, DISKS):
            wire.eventually(lambda path=path: made.send("GET", path).code == 200, f"{path} is served")
        for name in ("fast", "plain"):
            body = {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner"}
            made.post("/apis/storage.k8s.io/v1/storageclasses", body)
        yield made
        made.close()


@contextlib.contextmanager
def managing(folder: Path, classes: str) -> Iterator[Path]:
    """A manager until the end of the with-block; its log."""
    config, log = folder / "config", folder / "manager.log"
    config.mkdir(exist_ok=True)
    (config / "storageClassMap").write_text(classes)
    options = ("--kubeconfig", f"{folder}/data/kubeconfig", "--config", str(config))
    with log.open("ab") as stderr:
        process = forked_programs.start("manager", *options, stderr=stderr)
    try:
        assert process.stdout.readline() == b"ready manager\n", log.read_text()
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()


def storage(*modes: str) -> dict[str, Any]:
    groups = [
        {"storageClassName": "fast", "volumeMode": mode, "deviceNames": [f"sd{mode[0].lower()}"]} for mode in modes
    ]
    head = {"apiVersion": "local.storage.openshift.com/v1alpha1", "kind": "LocalStorage"}
    return {**head, "metadata": {"name": "local"}, "spec": {"nodes": [{"devices": groups}]}}


def offer(api: wire.Api, storage_class: str, entry: str, path: str, mode: str, matched_by: str = "") -> None:
    """What the agent of a node says about a disk that may be offered."""
    spec = {
        "nodeName": NODE,
        "storageClassName": storage_class,
        "entry": entry,
        "path": path,
        "volumeMode": mode,
    }
    name = disk_name(NODE, storage_class, entry)
    api.post(
        DISKS, {"apiVersion": "localpv.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": name}, "spec": spec}
    )
    status = {
        "phase": "Available",
        "eligible": True,
        "reason": "Available",
        "kind": "BlockDevice",
        "capacityBytes": 1 << 30,
        "identity": {"serial": f"S-{entry}"},
        **({"matchedBy": matched_by} if matched_by else {}),
    }
    api.merge(f"{DISKS}/{name}/status", {"status": status})


def offered(api: wire.Api) -> dict[str, tuple[str, str]]:
    return {
        each["spec"]["local"]["path"]: (each["spec"]["volumeMode"], each["metadata"]["uid"])
        for each in api.get(VOLUMES)["items"]
    }


def test_both_modes_of_a_class_are_published_as_soon_as_its_local_storage_is_there(
    api: wire.Api, tmp_path: Path
) -> None:
    raw, formatted = f"{LINKS}/fast/block/a", f"{LINKS}/fast/filesystem/b"
    with managing(tmp_path, "plain: {hostDir: /mnt/plain}"):
        offer(api, "fast", "a", raw, "Block")
        offer(api, "fast", "b", formatted, "Filesystem")
        offer(api, "plain", "c", "/mnt/plain/c", "Filesystem")
        wire.eventually(lambda: set(offered(api)) == {"/mnt/plain/c"}, "the class of the configuration is published")
        api.post(STORAGES, storage("Block", "Filesystem"))
        wire.eventually(lambda: len(offered(api)) == 3, "and both modes of the other")
    before = offered(api)
    assert (before[raw][0], before[formatted][0]) == ("Block", "Filesystem")

    with managing(tmp_path, "plain: {hostDir: /mnt/plain}"):
        # One that starts knows all classes before it looks at a disk.
        offer(api, "plain", "d", "/mnt/plain/d", "Filesystem")
        wire.eventually(lambda: "/mnt/plain/d" in offered(api), "it works")
        assert {path: offered(api)[path] for path in before} == before


def test_class_of_the_configuration_wins_over_that_of_a_local_storage(api: wire.Api, tmp_path: Path) -> None:
    api.post(STORAGES, storage("Block"))
    with managing(tmp_path, "fast: {hostDir: /mnt/fast}") as log:
        offer(api, "fast", "a", f"{LINKS}/fast/block/a", "Block")
        offer(api, "fast", "b", "/mnt/fast/b", "Filesystem")
        wire.eventually(lambda: set(offered(api)) == {"/mnt/fast/b"}, "what the configuration says is published")
        assert "LocalStorage class fast: storageClassMap.fast has this class already" in log.read_text()


@pytest.mark.seed("OPR-18")
def test_local_storage_that_goes_offers_nothing_from_then_on_though_no_node_has_heard_of_it(
    api: wire.Api, tmp_path: Path
) -> None:
    api.post(STORAGES, storage("Block") | {"metadata": {"name": "local", "finalizers": ["example.com/keep"]}})
    rule = f"{SPACE}/local nodes[0].devices[0].deviceNames[0]"
    first, claimed, later = (f"{LINKS}/fast/block/{entry}" for entry in "abc")
    with managing(tmp_path, "plain: {hostDir: /mnt/plain}"):
        for path in (first, claimed):
            offer(api, "fast", path[-1], path, "Block", rule)
        wire.eventually(lambda: set(offered(api)) == {first, claimed}, "its devices are offered")
        # Nobody binds here, so the test does.
        claim = {"namespace": "default", "name": "data", "uid": "of-somebody"}
        for volume in api.get(VOLUMES)["items"]:
            path = f"{VOLUMES}/{volume['metadata']['name']}"
            bound = volume["spec"]["local"]["path"] == claimed
            if bound:
                api.merge(path, {"spec": {"claimRef": claim}})
            api.merge(f"{path}/status", {"status": {"phase": "Bound" if bound else "Available"}})
        api.delete(f"{STORAGES}/local")
        wire.eventually(lambda: set(offered(api)) == {claimed}, "what nobody has claimed is withdrawn")
        offer(api, "fast", "c", later, "Block", rule)
        offer(api, "plain", "d", "/mnt/plain/d", "Filesystem")
        wire.eventually(lambda: "/mnt/plain/d" in offered(api), "what comes later is looked at")
        assert set(offered(api)) == {claimed, "/mnt/plain/d"}
        disks = {each["spec"]["path"]: each for each in api.get(DISKS)["items"]}
        told = [each["reason"] for each in disks[later]["status"].get("conditions", ())]
        assert "Retired" in told
    api.merge(f"{STORAGES}/local", {"metadata": {"finalizers": None}})
