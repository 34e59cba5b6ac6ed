"""`localpv discoverer` as it runs on a node: a real udev, loop devices, an API server, and death at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import engine_process, forked_programs
from tests.contract import builders, wire
from tests.loops import Lent
from tests.private_udev import MISSING, RULES
from tests.private_udev import private_udev as private_udev

from localpv.api import crds
from localpv.api.kinds.localdisk import LOCAL_DISKS
from localpv.api.kinds.localstorage import LOCAL_STORAGE_NODES, LOCAL_STORAGES, LocalStorage
from localpv.config import local_storage
from localpv.host import loop
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")

NODE, SPACE, CLASS = "node-1", "localpv-system", "fast"
LINKS = Path("/dev/disk/kubernetes-local-storage") / CLASS / "block"
VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"
STORAGES = f"{LOCAL_STORAGES.path}/namespaces/{SPACE}/{LOCAL_STORAGES.plural}"
REPORTS = f"{LOCAL_STORAGE_NODES.path}/namespaces/{SPACE}/{LOCAL_STORAGE_NODES.plural}"
DISKS = f"{LOCAL_DISKS.path}/{LOCAL_DISKS.plural}"


class NodeHere:
    """This machine as a node with LocalStorages; disks are files below one folder."""

    def __init__(self, folder: Path, api: wire.Api, kubeconfig: Path) -> None:
        self.folder, self.api, self._kubeconfig = folder, api, kubeconfig
        self._lent: dict[str, Lent] = {}
        self._processes: list[forked_programs.Program] = []

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            process.stdout.close()
        for lent in self._lent.values():
            lent.give_back()

    def plug(self, name: str) -> str:
        """A disk comes; its kernel name."""
        file = self.folder / f"{name}.img"
        with file.open("wb") as image:
            image.truncate(16 << 20)
        self._lent[name] = Lent.now(loop.attach(file))
        return self._lent[name].device.name

    def pull(self, name: str) -> None:
        self._lent.pop(name).give_back()

    def storage(self, name: str, disks: str = "*") -> LocalStorage:
        """Write a LocalStorage that means disks of this test, and its ConfigMap."""
        rule = f'KERNEL=="loop*", ATTR{{loop/backing_file}}=="{self.folder}/{disks}.img"'
        group = {"storageClassName": CLASS, "volumeMode": "Block", "udevRules": [rule]}
        head = {"apiVersion": LOCAL_STORAGES.api_version, "kind": LOCAL_STORAGES.kind, "metadata": {"name": name}}
        made = self.api.post(STORAGES, head | {"spec": {"nodes": [{"devices": [group]}]}})
        storage = msgspec.convert(made, LocalStorage)
        self.mount(storage)
        return storage

    def edit(self, name: str, rule: str) -> LocalStorage:
        """Let a LocalStorage say something else; what it says now."""
        group = {"storageClassName": CLASS, "volumeMode": "Block", "udevRules": [f'KERNEL=="loop*", {rule}']}
        patch = {"spec": {"nodes": [{"devices": [group]}]}}
        changed = self.api.send("PATCH", f"{STORAGES}/{name}", patch, content_type=wire.MERGE_PATCH).body
        storage = msgspec.convert(changed, LocalStorage)
        self.mount(storage)
        return storage

    def mount(self, storage: LocalStorage, *, retired: bool = False) -> None:
        """What the kubelet mounts of the ConfigMap."""
        made = local_storage.node_configuration(storage, local_storage.groups(storage))
        groups = {id: msgspec.structs.replace(group, retired=retired) for id, group in made.groups.items()}
        folder = self._config(storage.metadata.name)
        folder.mkdir(exist_ok=True)
        fresh = folder / ".new"
        fresh.write_text(msgspec.structs.replace(made, groups=groups).text())
        fresh.rename(folder / local_storage.KEY)

    def _config(self, name: str) -> Path:
        return self.folder / f"config-{name}"

    def start(self, name: str) -> forked_programs.Program:
        """The discoverer of a LocalStorage."""
        options = ("--kubeconfig", str(self._kubeconfig), "--config", str(self._config(name)))
        with (self.folder / f"{name}.log").open("a") as log:
            options = (*options, "--state", str(self.folder / "state"))
            environment = {**os.environ, "MY_NODE_NAME": NODE, "MY_NAMESPACE": SPACE}
            process = forked_programs.start("discoverer", *options, stderr=log, env=environment)
        self._processes.append(process)
        assert process.stdout.readline() == f"ready discoverer of node {NODE}\n".encode(), self.log(name)
        return process  # type: ignore[no-any-return]

    def stop(self, name: str, process: forked_programs.Program) -> None:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, self.log(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]

    def links(self) -> set[str]:
        return {path.name for path in LINKS.glob("*")}

    def report(self, name: str) -> Any:
        """The status of a LocalStorageNode; empty when there is none."""
        found = self.api.send("GET", f"{REPORTS}/{name}.{NODE}")
        return {"matched": 0, "generation": 0, **found.body.get("status", {})} if found.code == 200 else {}

    def until_matched(self, name: str, count: int) -> None:
        wire.eventually(lambda: self.report(name).get("matched") == count, f"{count} devices are reported")

    def until_linked(self, *names: str) -> None:
        wire.eventually(lambda: self.links() == set(names), f"links are {names}")

    def files(self) -> list[str]:
        return sorted(path.name for path in RULES.iterdir())

    def use(self, entry: str) -> str:
        """A volume has the disk of a link; the name of its LocalDisk."""
        spec = {
            "nodeName": NODE,
            "storageClassName": CLASS,
            "entry": entry,
            "path": str(LINKS / entry),
            "volumeMode": "Block",
            "volume": {"name": "pv", "uid": "uid"},
        }
        head = {"apiVersion": LOCAL_DISKS.api_version, "kind": LOCAL_DISKS.kind, "metadata": {"name": f"disk-{entry}"}}
        return str(self.api.post(DISKS, head | {"spec": spec})["metadata"]["name"])


@pytest.fixture
def node(tmp_path: Path, private_udev: Path) -> Iterator[NodeHere]:
    with engine_process.running(data=tmp_path / "data", options=["--node", NODE]) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        api = wire.Api(target, target.token)
        for kind in ("localdisks", "localstorages", "localstoragenodes"):
            answer = api.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crds.load(kind))
            assert answer.code in (201, 409)
        api.send("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        api.send("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
        for path in (STORAGES, REPORTS, DISKS):
            wire.eventually(lambda path=path: api.send("GET", path).code == 200, f"{path} is served")  # type: ignore[misc]
        made = NodeHere(tmp_path, api, engine.kubeconfig)
        with contextlib.ExitStack() as undo:
            undo.callback(api.close)
            undo.callback(made.close)
            yield made


@pytest.mark.seed("OPR-5", "OPR-6", "OPR-7", "OPR-12")
def test_disks_that_are_there_and_those_that_come_are_linked_and_reported(node: NodeHere) -> None:
    first = node.plug("one")
    node.storage("a")
    process = node.start("a")
    node.until_linked(first)
    node.until_matched("a", 1)

    second = node.plug("two")
    node.until_linked(first, second)
    node.until_matched("a", 2)
    (device,) = [each for each in node.report("a")["devices"] if each["device"] == second]
    assert device["link"] == str(LINKS / second)
    assert device["rule"] == "nodes[0].devices[0].udevRules[0]"

    node.pull("one")
    node.until_linked(second)
    node.until_matched("a", 1)
    node.stop("a", process)


@pytest.mark.seed("OPR-8", "OPR-17")
def test_an_update_takes_no_link_and_the_end_takes_all(node: NodeHere) -> None:
    name = node.plug("one")
    node.storage("a")
    process = node.start("a")
    node.until_linked(name)
    # udev puts links in place anew, by a rename, whenever anybody has it look at the device: so neighbours may.
    link, rules = os.readlink(LINKS / name), os.stat(RULES / node.files()[0])
    node.stop("a", process)
    assert os.readlink(LINKS / name) == link
    process = node.start("a")
    node.until_matched("a", 1)
    assert os.readlink(LINKS / name) == link
    assert os.path.samestat(os.stat(RULES / node.files()[0]), rules), "nobody wrote the rules again"

    node.api.send("DELETE", f"{STORAGES}/a")
    node.stop("a", process)
    assert node.links() == set()
    assert node.files() == []
    wire.eventually(lambda: not node.report("a"), "the report is gone")


@pytest.mark.seed("OPR-8")
def test_what_a_killed_discoverer_left_is_removed_by_that_of_another_local_storage(node: NodeHere) -> None:
    one, other = node.plug("one"), node.plug("other")
    node.storage("a", "one")
    process = node.start("a")
    node.until_linked(one)
    process.kill()
    process.wait()
    node.api.send("DELETE", f"{STORAGES}/a")
    (RULES / "99-kubernetes-local-storage-mine.rules").write_text("# an administrator's\n")

    node.storage("b", "other")
    node.stop("b", _until(node, node.start("b"), other))
    assert node.files() == ["99-kubernetes-local-storage-b.rules", "99-kubernetes-local-storage-mine.rules"]


@pytest.mark.seed("OPR-17", "OPR-18")
def test_a_retired_group_keeps_the_link_of_a_volume_until_the_volume_is_gone(node: NodeHere) -> None:
    one, two = node.plug("one"), node.plug("two")
    storage = node.storage("a")
    process = node.start("a")
    node.until_linked(one, two)
    disk = node.use(one)
    node.mount(storage, retired=True)
    node.until_linked(one)
    node.plug("three")

    node.api.send("DELETE", f"{DISKS}/{disk}")
    node.until_linked()
    wire.eventually(lambda: node.files() == [], "the file is gone")
    node.stop("a", process)


@pytest.mark.seed("OPR-16", "OPR-17")
def test_an_older_local_storage_takes_no_disk_from_under_a_volume_of_a_younger(node: NodeHere) -> None:
    one = node.plug("one")
    node.storage("a", "none")
    node.storage("b", "one")
    processes = [node.start("a"), node.start("b")]
    node.until_matched("b", 1)
    disk = node.use(one)
    node.edit("a", f'ATTR{{loop/backing_file}}=="{node.folder}/*.img"')
    node.plug("two")
    node.until_matched("a", 1)

    (device,) = [each for each in node.report("a")["devices"] if each["device"] == one]
    assert device["reason"] == "TakenByOther"
    assert f"LocalStorage {SPACE}/b has the device, and a volume is on it" in device["message"]
    assert node.report("b")["matched"] == 1

    node.api.send("DELETE", f"{DISKS}/{disk}")
    node.plug("three")  # the kernel tells of it, and they look
    node.until_matched("a", 3)
    node.until_matched("b", 0)
    for name, process in zip("ab", processes, strict=True):
        node.stop(name, process)


@pytest.mark.seed("OPR-17")
def test_killed_again_and_again_while_rules_change_no_link_in_use_is_ever_lost(node: NodeHere) -> None:
    """At moments of chance; `tests/unit/agent/udev/test_crashes.py` has every one of them."""
    one = node.plug("one")
    storage = node.storage("a", "one")
    process = node.start("a")
    node.until_linked(one)
    node.use(one)
    for turn in range(6):
        storage = node.edit("a", f'ATTR{{loop/backing_file}}=="{node.folder}/one.img|{node.folder}/turn{turn}.img"')
        process.kill()
        process.wait()
        process = node.start("a")
        until = time.monotonic() + 0.05 * turn
        while time.monotonic() < until:
            assert one in node.links()
    last = node.plug(f"turn{turn}")
    node.until_linked(one, last)
    wire.eventually(lambda: node.report("a").get("generation") == storage.metadata.generation, "it is in force")
    node.stop("a", process)


def _until(node: NodeHere, process: forked_programs.Program, *names: str) -> forked_programs.Program:
    node.until_linked(*names)
    return process


@pytest.mark.seed("OPR-19", "OPR-7", "OPR-14", "OPR-18")
def test_on_one_machine_disks_come_and_go_by_a_local_storage_alone(tmp_path: Path, private_udev: Path) -> None:
    with engine_process.running(data=tmp_path / "data", program="up", options=["--node", NODE]) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        api = wire.Api(target, target.token)
        api.send("POST", "/api/v1/namespaces", builders.namespace(SPACE))
        node = NodeHere(tmp_path, api, engine.kubeconfig)

        def offered() -> set[str]:
            paths = {Path(volume["spec"]["local"]["path"]) for volume in api.get(VOLUMES)["items"]}
            return {path.name for path in paths if path.parent == LINKS}

        try:
            node.storage("a")
            first = node.plug("one")
            wire.eventually(lambda: offered() == {first}, "the first disk is offered")
            second = node.plug("two")
            wire.eventually(lambda: offered() == {first, second}, "the second disk is offered")
            node.pull("two")
            wire.eventually(lambda: offered() == {first}, "what was pulled is withdrawn")

            api.send("DELETE", f"{STORAGES}/a")
            wire.eventually(lambda: api.send("GET", f"{STORAGES}/a").code == 404, "the LocalStorage is gone")
            assert offered() == set()
            assert node.links() == set()
            assert node.files() == []
            wire.eventually(lambda: api.send("GET", f"{CLASSES}/{CLASS}").code == 404, "its class is gone")
        finally:
            node.close()
            api.close()
