"""LocalStorages of `localpv up`: from a rule to a volume and back on one machine, with a udev of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import private_udev as udev
from tests.loops import Lent
from tests.pods.machine import NODE, Machine
from tests.private_udev import private_udev as private_udev

from localpv.host import loop

pytestmark = [
    pytest.mark.skipif(bool(udev.MISSING), reason=udev.MISSING or "-"),
    pytest.mark.seed("OPR-7", "OPR-9", "OPR-19"),
]

STORAGES = "/apis/local.storage.openshift.com/v1alpha1/namespaces/default/localstorages"
REPORTS = "/apis/localpv.dev/v1alpha1/namespaces/default/localstoragenodes"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
LINKS = Path("/dev/disk/kubernetes-local-storage")
RULES = udev.RULES / "99-kubernetes-local-storage-local.rules"
SIZE = 32 << 20


def example_2(folder: Path) -> dict[str, Any]:
    """Example 2 of the document. Loop devices are meant only where they are named, and here those of the test alone."""
    ours = f'KERNEL=="loop*", ATTR{{loop/backing_file}}=="{folder}/*.img"'
    groups = [
        {
            "storageClassName": name,
            "volumeMode": "Block",
            "udevRules": [f'{ours}, KERNEL!="sda" , ATTR{{queue/rotational}}=="{rotational}"'],
        }
        for name, rotational in (("local-ssd", 0), ("local-hdd", 1))
    ]
    return {
        "kind": "LocalStorage",
        "apiVersion": "local.storage.openshift.com/v1alpha1",
        "metadata": {"name": "local"},
        "spec": {
            "storageClasses": ["local"],
            "nodes": [{"nodeSelector": {"localStorage": "true"}, "devices": groups}],
        },
    }


class Bay:
    """Disks of one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lent: list[Lent] = []

    def plug(self, name: str, *, rotational: bool) -> Path:
        file = self.folder / f"{name}.img"
        with file.open("wb") as image:
            image.truncate(SIZE)
        lent = Lent.now(loop.attach(file))
        self._lent.append(lent)
        device = Path("/sys/class/block") / lent.device.name
        (device / "queue" / "rotational").write_text(str(int(rotational)))
        (device / "uevent").write_text("change")
        return lent.device

    def close(self) -> None:
        for lent in self._lent:
            lent.give_back()


@pytest.fixture
def bay(tmp_path: Path) -> Iterator[Bay]:
    made = Bay(tmp_path)
    yield made
    made.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "data")
    yield made
    made.close()


def volumes(machine: Machine, storage_class: str) -> list[Any]:
    found = machine.api.get(VOLUMES)["items"]
    return [each for each in found if each["spec"]["storageClassName"] == storage_class]


def the_volume(machine: Machine, storage_class: str) -> Any:
    machine.eventually(lambda: volumes(machine, storage_class), f"a volume of {storage_class}")
    [volume] = volumes(machine, storage_class)
    return volume


def claim(machine: Machine, name: str, storage_class: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Block",
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    machine.api.post(CLAIMS, {"metadata": {"name": name}, "spec": spec})


def write_from_a_pod(machine: Machine, name: str, claimed: str) -> None:
    one = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "echo a secret | dd of=/dev/xvda conv=fsync"],
        "volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}],
    }
    spec = {
        "containers": [one],
        "restartPolicy": "Never",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claimed}}],
    }
    machine.create(spec, name, on_node=False)
    machine.until_phase(name, "Succeeded")


def condition(storage: Any, kind: str) -> Any:
    found = storage.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("private_udev")
@pytest.mark.seed("OPR-17")
def test_disks_become_volumes_are_used_wiped_and_offered_again_until_the_local_storage_goes(
    machine: Machine, bay: Bay
) -> None:
    machine.start()
    ssd, hdd = bay.plug("ssd", rotational=False), bay.plug("hdd", rotational=True)
    machine.api.merge(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"localStorage": "true"}}})
    machine.api.post(STORAGES, example_2(bay.folder))

    first, other = the_volume(machine, "local-ssd"), the_volume(machine, "local-hdd")
    assert first["spec"]["local"]["path"] == str(LINKS / "local-ssd" / "block" / ssd.name)
    assert other["spec"]["local"]["path"] == str(LINKS / "local-hdd" / "block" / hdd.name)
    assert (first["spec"]["volumeMode"], other["spec"]["volumeMode"]) == ("Block", "Block")
    assert not machine.api.get("/apis/apps/v1/daemonsets")["items"]
    for name in ("local", "local-ssd", "local-hdd"):
        assert machine.api.get(f"{CLASSES}/{name}")["provisioner"] == "kubernetes.io/no-provisioner"
    matched = {disk["spec"]["entry"]: disk["status"]["matchedBy"] for disk in machine.api.get(DISKS)["items"]}
    assert matched == {
        ssd.name: "default/local nodes[0].devices[0].udevRules[0]",
        hdd.name: "default/local nodes[0].devices[1].udevRules[0]",
    }
    machine.eventually(
        lambda: machine.api.get(f"{STORAGES}/local").get("status", {}).get("publishedDevices") == 2,
        "the status says so",
    )

    claim(machine, "data", "local-ssd")
    write_from_a_pod(machine, "writes", "data")
    assert b"a secret" in ssd.read_bytes()[:512]
    machine.kill()  # and what it has told udev stays in force
    assert Path(first["spec"]["local"]["path"]).exists()
    machine.start()
    machine.delete("writes")
    machine.api.delete(f"{CLAIMS}/data")
    machine.eventually(
        lambda: (
            [each["metadata"]["uid"] for each in volumes(machine, "local-ssd")] not in ([], [first["metadata"]["uid"]])
        ),
        "it is wiped and offered again",
    )
    assert not any(ssd.read_bytes())

    # With a volume in use it waits, says for which, and goes on by itself.
    claim(machine, "kept", "local-hdd")
    write_from_a_pod(machine, "keeps", "kept")
    machine.api.delete(f"{STORAGES}/local")
    machine.eventually(
        lambda: condition(machine.api.get(f"{STORAGES}/local"), "Deleting").get("reason") == "WaitingForVolumes",
        "the deletion waits",
    )
    machine.eventually(lambda: not volumes(machine, "local-ssd"), "what nobody has is withdrawn")
    assert Path(other["spec"]["local"]["path"]).exists()
    machine.delete("keeps")
    machine.api.delete(f"{CLAIMS}/kept")
    machine.eventually(lambda: machine.api.gone(f"{STORAGES}/local"), "the LocalStorage is gone")
    machine.eventually(lambda: not machine.api.get(VOLUMES)["items"], "and its volumes")
    assert not any(hdd.read_bytes())
    machine.eventually(lambda: not RULES.exists(), "and its rules")
    machine.eventually(
        lambda: not [path for path in LINKS.rglob("*") if not path.is_dir()], "udev has taken its links away"
    )
    machine.eventually(lambda: not machine.api.get(REPORTS)["items"], "and what was reported of it")
    machine.eventually(lambda: not machine.api.get(DISKS)["items"], "nothing is left of its disks")
    machine.eventually(lambda: machine.api.gone(f"{CLASSES}/local-ssd"), "and of its classes")


@pytest.mark.usefixtures("private_udev")
def test_node_that_is_selected_no_more_loses_rules_and_links(machine: Machine, bay: Bay) -> None:
    machine.start()
    bay.plug("ssd", rotational=False)
    machine.api.merge(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"localStorage": "true"}}})
    machine.api.post(STORAGES, example_2(bay.folder))
    the_volume(machine, "local-ssd")

    machine.api.merge(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"localStorage": None}}})
    machine.eventually(lambda: not machine.api.get(VOLUMES)["items"], "the volume is withdrawn")
    machine.eventually(lambda: not RULES.exists(), "its rules are gone")


@pytest.mark.usefixtures("private_udev")
@pytest.mark.seed("OPR-12")
def test_explain_follows_a_device_from_its_rule_to_what_keeps_it_from_being_offered(machine: Machine, bay: Bay) -> None:
    machine.start()
    parted = bay.plug("parted", rotational=True)
    subprocess.run(["sfdisk", "--quiet", str(parted)], input=b"label: gpt\n", check=True)
    machine.api.merge(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"localStorage": "true"}}})
    machine.api.post(STORAGES, example_2(bay.folder))
    machine.eventually(
        lambda: [each.get("status", {}).get("reason") for each in machine.api.get(DISKS)["items"]] == ["Partitioned"],
        "the device is judged",
    )

    told = explained(machine, parted.name)
    assert f"{NODE}/{parted.name} is not offered: Partitioned." in told
    assert "matched by rule 2 of LocalStorage default/local (nodes[0].devices[1].udevRules[0]: " in told
    assert f", link {LINKS}/local-hdd/block/{parted.name}\n" in told
    assert "The disk has a partition table" in told

    # One that no rule means has no LocalDisk, and is explained all the same.
    file = bay.folder / "other"
    file.write_bytes(bytes(1 << 20))
    with loop.attached(file) as other:

        def reported() -> bool:
            reports = machine.api.get(REPORTS)["items"]
            return any(
                each["device"] == other.name for one in reports for each in one.get("status", {}).get("devices", [])
            )

        machine.eventually(reported, "the discoverer has seen it")
        told = explained(machine, f"{NODE}/{other.name}")
    assert told.startswith(f"{other.name} on node {NODE}: not matched by LocalStorage default/local: no rule")


def explained(machine: Machine, word: str) -> str:
    kubeconfig = str(machine.data / "kubeconfig")
    return subprocess.run(
        [sys.executable, "-m", "localpv", "explain", word, "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_without_udev_the_status_says_so_and_everything_else_works(machine: Machine, bay: Bay, tmp_path: Path) -> None:
    udev.own_namespace()
    config = tmp_path / "config"
    (tmp_path / "disks" / "a").mkdir(parents=True)
    config.mkdir()
    (config / "storageClassMap").write_text(f"plain: {{hostDir: {tmp_path}/disks}}")
    (config / "class.yaml").write_text(
        "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: plain},"
        " provisioner: kubernetes.io/no-provisioner}"
    )
    subprocess.run(["mount", "-t", "tmpfs", "localpv-test", "/run/udev"], check=True)
    try:
        machine.start("--config", str(config))
        machine.api.merge(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"localStorage": "true"}}})
        machine.api.post(STORAGES, example_2(bay.folder))

        def said() -> str:
            nodes = machine.api.get(f"{STORAGES}/local").get("status", {}).get("nodes", [])
            return str(nodes[0].get("message", "")) if nodes else ""

        machine.eventually(lambda: "the host runs no udev" in said(), "the status says that there is no udev")
        assert "the host runs no udev" in machine.log.read_text()
        assert machine.api.get(f"{CLASSES}/local-ssd")
        the_volume(machine, "plain")
        machine.api.delete(f"{STORAGES}/local")
        machine.eventually(lambda: machine.api.gone(f"{STORAGES}/local"), "it can be deleted all the same")
        assert volumes(machine, "plain")
    finally:
        machine.stop()
        subprocess.run(["umount", "-l", "/run/udev"], check=True)
