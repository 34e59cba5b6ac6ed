"""LocalStorages on a real cluster of two nodes: from a rule to a volume, to a tenant, and back to nothing.

Real are the API server, the controllers, the kubelets, the pods of the operator's DaemonSets with the image and the
rights that `localpv manifests --operator` gives them, the udev of each node, the uevents, the links, the devices and
what is written on them. Not real: both nodes are on one machine, so each sees the devices of the other, and rules say
whose a device is; and disks are loop devices, whose rotational flag the tests set. Loop devices are meant only where a
rule names them. So the second example of the document, which is applied unchanged, matches the disks that the machine
itself has: those are in use, and must not be offered. With disks that it may take the example is shown in the virtual
machine (`tests/vm/test_local_storage.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from tests import private_udev
from tests.contract import wire
from tests.contract.test_local_storage import EXAMPLE_2
from tests.e2e import disks, pods
from tests.kubernetes import build, cluster, node_udev
from tests.kubernetes.node import Node
from tests.loops import Lent

from localpv.host import loop

NAMESPACE = "localpv-system"
SECONDS = 120.0
SIZE = 32 << 20
STORAGES = f"/apis/local.storage.openshift.com/v1alpha1/namespaces/{NAMESPACE}/localstorages"
REPORTS = f"/apis/localpv.dev/v1alpha1/namespaces/{NAMESPACE}/localstoragenodes"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
LINKS = "/dev/disk/kubernetes-local-storage"
RULES = f"{private_udev.RULES}/99-kubernetes-local-storage-%s.rules"
CLASSES_HERE = ("loops-ssd", "loops-hdd", "loops-files")
T = TypeVar("T")
SECRET = "the secret of a tenant"

pytestmark = pytest.mark.skipif(bool(private_udev.MISSING), reason=private_udev.MISSING or "-")


@dataclass(frozen=True, kw_only=True)
class Bays:
    """Disks of the nodes: a loop device is a node's when its file lies in the node's folder."""

    folder: Path
    lent: list[Lent] = field(default_factory=list)

    def plug(self, node: Node, name: str, *, rotational: bool = False) -> Path:
        file = self.file(node, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as image:
            image.truncate(SIZE)
        lent = Lent.now(loop.attach(file))
        self.lent.append(lent)
        device = Path("/sys/class/block") / lent.device.name
        (device / "queue" / "rotational").write_text(str(int(rotational)))
        (device / "uevent").write_text("change")
        return lent.device

    def pull(self, device: Path) -> None:
        next(each for each in self.lent if each.device == device).give_back()

    def file(self, node: Node, name: str) -> Path:
        return self.folder / node.name / f"{name}.img"

    def storage(self, name: str, nodes: tuple[Node, ...]) -> Any:
        """The second example for loop devices of each node, and a class with file systems."""

        def devices(node: Node) -> Iterator[Any]:
            own = f'KERNEL=="loop*", ATTR{{loop/backing_file}}=="{self.folder}/{node.name}/'
            for flag, medium in enumerate(("ssd", "hdd")):
                rule = f'{own}raw*.img", KERNEL!="sda" , ATTR{{queue/rotational}}=="{flag}"'
                yield {"storageClassName": f"{name}-{medium}", "volumeMode": "Block", "udevRules": [rule]}
            yield {"storageClassName": f"{name}-files", "fsType": "ext4", "udevRules": [f'{own}files*.img"']}

        return {
            "kind": "LocalStorage",
            "apiVersion": "local.storage.openshift.com/v1alpha1",
            "metadata": {"name": name},
            "spec": {"nodes": [{"nodeName": node.name, "devices": [*devices(node)]} for node in nodes]},
        }


@pytest.fixture
def bays(running: cluster.Cluster) -> Iterator[Bays]:
    made = Bays(folder=running.plane.folder / "disks" / secrets.token_hex(4))
    yield made
    for each in made.lent:
        with contextlib.suppress(OSError):
            each.give_back()
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def served(running: cluster.Cluster, localpv_image: str) -> Iterator[Served]:
    """The operator in the cluster, and a udev in each node."""
    target = wire.read_kubeconfig(running.kubeconfig, controllers=True)
    here = Served(running=running, api=wire.Api(target, target.token), image=localpv_image)
    with contextlib.ExitStack() as undo:
        undo.callback(here.api.close)
        for node in running.nodes:
            undo.enter_context(node_udev.running(node))
        undo.callback(
            here.kubectl, "delete", "--timeout=100s", "--ignore-not-found", "-f", "-", given=here.objects(localpv_image)
        )
        here.kubectl("apply", "-f", "-", given=here.objects(localpv_image))
        undo.callback(here.end)
        here.eventually(lambda: len(here.ready("manager")) == 2, "managers are ready")
        yield here


class Served:
    """A cluster whose LocalStorages are served, as people see it."""

    def __init__(self, *, running: cluster.Cluster, api: wire.Api, image: str) -> None:
        self.running, self.api, self.image = running, api, image
        self.nodes = running.nodes

    def objects(self, image: str) -> str:
        command = [sys.executable, "-m", "localpv", "manifests", "--operator", "--image", image, "-f", "-"]
        config = json.dumps({"imagePullPolicy": "Never"})
        return subprocess.run(command, input=config, capture_output=True, text=True, check=True).stdout

    def kubectl(self, *words: str, given: str = "") -> str:
        command = [str(build.cache() / "kubectl"), "--kubeconfig", str(self.running.kubeconfig), *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=2 * SECONDS)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def label(self, node: Node, value: str | None) -> None:
        self.api.merge(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {"localStorage": value}}})

    def end(self) -> None:
        """No LocalStorage and no volume is left, also when a test has failed and its disks are gone."""
        paths = [f"{STORAGES}/{storage['metadata']['name']}" for storage in self.api.get(STORAGES)["items"]]
        paths += [f"{VOLUMES}/{volume['metadata']['name']}" for volume in self.volumes(*CLASSES_HERE).values()]
        for path in paths:
            self.api.send("DELETE", path)
            self.api.send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH)

    def eventually(self, look: Callable[[], T], what: str) -> T:
        """What there is once it is there; else what all parts have to say."""
        try:
            return wire.eventually(look, what, within=SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def told(self) -> str:
        parts = [yaml.safe_dump(self.api.get(path)["items"]) for path in (STORAGES, REPORTS, DISKS)]
        for pod in self.api.get(PODS)["items"]:
            name = pod["metadata"]["name"]
            states = [each.get("state") for each in pod["status"].get("containerStatuses", ())]
            parts.append(f"-- {name} {pod['status'].get('phase')} {states}")
            for container in pod["spec"]["containers"]:
                path = f"{PODS}/{name}/log?container={container['name']}&tailLines=40"
                parts.append(self.api.send("GET", path, accept="*/*").raw.decode(errors="replace"))
        parts += [self.kubectl("-n", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp")]
        return "\n".join(parts)

    def ready(self, component: str) -> list[Any]:
        found = self.api.get(PODS, labelSelector=f"app.kubernetes.io/component={component}")["items"]
        return [pod for pod in found if _condition(pod, "Ready").get("status") == "True"]

    def storage(self, name: str) -> Any:
        return self.api.get(f"{STORAGES}/{name}")

    def in_force(self, name: str) -> set[str]:
        """Nodes whose udev works with the rules of now."""
        storage = self.storage(name)
        reports = [one for one in self.api.get(REPORTS)["items"] if one["spec"]["localStorageName"] == name]
        generation = storage["metadata"]["generation"]
        right = [one for one in reports if one.get("status", {}).get("generation") == generation]
        return {one["spec"]["nodeName"] for one in right if not one["status"].get("error")}

    def volumes(self, *classes: str) -> dict[str, Any]:
        """Volumes of classes by NODE/LINK below the folder of links."""
        found = {}
        for volume in self.api.get(VOLUMES)["items"]:
            spec = volume["spec"]
            if spec.get("storageClassName") in classes:
                term = spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
                found[f"{term['values'][0]}{spec['local']['path'].removeprefix(LINKS)}"] = volume
        return found

    def offered(self, at: str, *, instead_of: Any) -> Any:
        """A volume that can be claimed, and another than before."""
        classes = [instead_of["spec"]["storageClassName"]]
        found = self.volumes(*classes).get(at)
        new = found is not None and found["metadata"]["uid"] != instead_of["metadata"]["uid"]
        return found if new and found["status"].get("phase") == "Available" else None

    def rolled_out(self, name: str, image: str) -> bool:
        """Whether all pods of a LocalStorage run this image, and none of before is left."""
        uid = self.storage(name)["metadata"]["uid"]
        found = self.api.get(PODS, labelSelector=f"localpv.dev/local-storage={uid}")["items"]
        images = {container["image"] for pod in found for container in pod["spec"]["containers"]}
        ready = [pod for pod in found if _condition(pod, "Ready").get("status") == "True"]
        return images == {image} and len(ready) == len(found) == len(self.nodes)

    def refused(self, *classes: str) -> dict[str, str]:
        """NODE/DEVICE of disks that are not offered, and why: they have no link, or one that leads to nothing good."""
        reasons = {}
        for report in self.api.get(REPORTS)["items"]:
            for device in report.get("status", {}).get("devices", ()):
                reasons[f"{report['spec']['nodeName']}/{device['device']}"] = device.get("reason")
        for disk in self.api.get(DISKS)["items"]:
            if disk["spec"]["storageClassName"] in classes:
                reasons[f"{disk['spec']['nodeName']}/{disk['spec']['entry']}"] = disk["status"].get("reason")
        return {name: reason for name, reason in reasons.items() if reason}

    def left(self, name: str, *classes: str) -> list[str]:
        """What is still there of a LocalStorage that is gone."""
        found = [f"{node.name}: {RULES % name}" for node in self.nodes if self.has_rules(node, name)]
        found += [f"{node.name}: {link}" for node in self.nodes for link in self.links(node)]
        found += [*self.volumes(*classes)]
        found += [each for each in classes if not self.api.gone(f"{CLASSES}/{each}")]
        for path in (DAEMON_SETS, REPORTS):
            found += [f"{path}/{one['metadata']['name']}" for one in self.api.get(path)["items"]]
        # One that is gone may be remembered for what a cleaning left on it.
        known = [one for one in self.api.get(DISKS)["items"] if one["status"].get("reason") != "Gone"]
        found += [one["metadata"]["name"] for one in known]
        maps = self.api.get(CONFIG_MAPS, labelSelector="app.kubernetes.io/component=local-storage")["items"]
        return found + [one["metadata"]["name"] for one in maps]

    def links(self, node: Node) -> set[str]:
        return {*node.run("sh", "-c", f"find {LINKS} -type l 2>/dev/null || true").split()}

    def has_rules(self, node: Node, name: str) -> bool:
        return bool(node.run("sh", "-c", f"ls {RULES % name} 2>/dev/null || true"))


def _disks_in_use() -> set[str]:
    """Kernel names of the disks that something is mounted from on this machine, itself or a partition of it."""
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        device = Path("/sys/dev/block") / line.split()[2]
        if device.exists():
            whole = device.resolve()
            found.add(whole.parent.name if (whole / "partition").exists() else whole.name)
    return {name for name in found if not name.startswith(("loop", "dm-", "md", "zram"))}


def _condition(obj: Any, kind: str) -> Any:
    found = obj.get("status", {}).get("conditions", ())
    return next((each for each in found if each["type"] == kind), {})


@contextlib.contextmanager
def always_there(node: Node, link: str) -> Iterator[None]:
    """A link of a node leads to a device at every look until the with-block ends."""
    # Outside, the files of a node are below the root of its first process.
    path, over = Path(f"/proc/{node.pid}/root{link}"), threading.Event()
    target, missed = os.readlink(path), []

    def look() -> None:
        while not over.wait(0.001):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(path) == target:
                    continue
            missed.append(time.time())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
    assert not missed, f"{link} was not there at {missed[:3]}"


@pytest.mark.seed("OPR-1", "OPR-4", "OPR-8", "OPR-9", "OPR-13", "OPR-14")
def test_second_example_of_the_document_is_served_unchanged_on_each_node_that_has_its_label(served: Served) -> None:
    first, second = served.nodes
    own = {f"{node.name}/{name}" for node in served.nodes for name in _disks_in_use()} - {"node-1/sda", "node-2/sda"}
    served.label(first, "true")
    served.kubectl("-n", NAMESPACE, "apply", "-f", "-", given=EXAMPLE_2)
    served.eventually(lambda: served.in_force("local") == {first.name}, "its rules are in force on the node")
    served.eventually(lambda: served.ready("local-storage"), "its pod is ready")
    assert [pod["spec"]["nodeName"] for pod in served.ready("local-storage")] == [first.name]
    served.label(second, "true")
    served.eventually(
        lambda: served.in_force("local") == {first.name, second.name}, "and on one that has the label later"
    )
    for name in ("local", "local-ssd", "local-hdd"):
        assert served.api.get(f"{CLASSES}/{name}")["volumeBindingMode"] == "WaitForFirstConsumer"

    # Disks that the machine runs from are meant by the rule as well, and not given to anybody. In a container there may
    # be no access to them; then udev has none either, and they have no link.
    served.eventually(lambda: own <= {*served.refused("local-ssd", "local-hdd")}, "disks of the machine are judged")
    reasons = {reason for disk, reason in served.refused("local-ssd", "local-hdd").items() if disk in own}
    assert reasons <= {"Mounted", "NotLookedAt"}
    assert not own & {*served.volumes("local", "local-ssd", "local-hdd")}

    served.label(second, None)
    served.eventually(lambda: not served.has_rules(second, "local"), "a node that lost its label loses its rules")
    served.kubectl("-n", NAMESPACE, "delete", "localstorage", "local", f"--timeout={SECONDS:g}s")
    served.eventually(lambda: not served.left("local", "local", "local-ssd", "local-hdd"), "nothing of it is left")


@pytest.mark.seed("OPR-6", "OPR-7", "OPR-10", "OPR-11", "OPR-12", "OPR-14", "OPR-17", "OPR-18")
def test_disks_of_two_nodes_are_offered_used_wiped_offered_again_and_forgotten(
    served: Served, bays: Bays, here: pods.Here
) -> None:
    first, second = served.nodes
    early = bays.plug(first, "raw-early")
    served.kubectl("-n", NAMESPACE, "apply", "-f", "-", given=json.dumps(bays.storage("loops", served.nodes)))
    served.eventually(lambda: len(served.in_force("loops")) == 2, "its rules are in force on both nodes")
    hdd, files = bays.plug(second, "raw-hdd", rotational=True), bays.plug(second, "files")
    raw_at, hdd_at = f"node-1/loops-ssd/block/{early.name}", f"node-2/loops-hdd/block/{hdd.name}"
    files_at = f"node-2/loops-files/filesystem/{files.name}"
    served.eventually(
        lambda: {*served.volumes(*CLASSES_HERE)} == {raw_at, hdd_at, files_at}, "disks of then and of now are volumes"
    )

    raw, formatted = served.volumes(*CLASSES_HERE)[raw_at], served.volumes(*CLASSES_HERE)[files_at]
    assert formatted["spec"]["local"]["fsType"] == "ext4"
    raw_claim = disks.claim(here, "loops-ssd", volumeMode="Block")
    write = f"echo {SECRET} | dd of=/dev/raw bs=512 seek=2048 conv=fsync && sync"
    devices = [{"name": "disk", "devicePath": "/dev/raw"}]
    writer, _ = here.run("sh", "-c", write, spec=pods.claimed(raw_claim), volumeDevices=devices)
    assert writer["spec"]["nodeName"] == first.name
    assert SECRET.encode() in bays.file(first, "raw-early").read_bytes()
    files_claim = disks.claim(here, "loops-files")
    mounts = [{"name": "disk", "mountPath": "/files"}]
    tenant = here.start(
        *("sh", "-c", f"echo {SECRET} >/files/note && sync && echo written && sleep 3600"),
        spec=pods.claimed(files_claim),
        volumeMounts=mounts,
    )
    here.until_says(tenant, "written")
    assert SECRET.encode() in bays.file(second, "files").read_bytes()

    # Another image rolls out while the tenant has its disk, and the link under it is there all the time.
    in_use = f"{LINKS}/loops-files/filesystem/{files.name}"
    following = f"{served.image}-next"
    for node in served.nodes:
        node.run("ctr", "--namespace", "k8s.io", "images", "tag", "--force", served.image, following)
    rules = second.run("stat", "-c", "%i", RULES % "loops")
    with always_there(second, in_use):
        served.kubectl("apply", "-f", "-", given=served.objects(following))
        served.eventually(lambda: served.rolled_out("loops", following), "all pods have the other image")
    assert second.run("stat", "-c", "%i", RULES % "loops") == rules, "not even written again"

    # Given back, it is wiped and offered again.
    here.delete(writer["metadata"]["name"])
    disks.give_back(here, raw_claim)
    again = served.eventually(lambda: served.offered(raw_at, instead_of=raw), "it is offered again")
    assert again["spec"]["volumeMode"] == "Block"
    assert not any(bays.file(first, "raw-early").read_bytes())

    # Nobody has this one: it goes with its device, and comes again with it.
    bays.pull(hdd)
    served.eventually(lambda: hdd_at not in served.volumes(*CLASSES_HERE), "a volume goes with its disk")

    # The end waits for the tenant, names the volume, and goes on by itself.
    served.api.delete(f"{STORAGES}/loops")
    name = formatted["metadata"]["name"]
    served.eventually(lambda: name in _condition(served.storage("loops"), "Deleting").get("message", ""), "it waits")
    served.eventually(lambda: {*served.volumes(*CLASSES_HERE)} == {files_at}, "what nobody has is withdrawn")
    assert in_use in served.links(second)
    assert not served.api.gone(f"{CLASSES}/loops-files")
    here.delete(tenant)
    disks.give_back(here, files_claim)
    served.eventually(lambda: served.api.gone(f"{STORAGES}/loops"), "the LocalStorage is gone")
    served.eventually(lambda: not served.left("loops", *CLASSES_HERE), "and all that was made of it")
    assert SECRET.encode() not in bays.file(second, "files").read_bytes()
