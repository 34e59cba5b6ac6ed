"""The documents' manifests for a cluster, followed to the letter, end in volumes.

The pod of a DaemonSet is run as what it is to the program: its arguments, its environment, its mounts and the files of
its service account, in a root of its own, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import engine_process
from tests.contract import wire
from tests.journey import documents

from localpv.api.resources import BUILT_IN
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")

IMAGE = "localhost/localpv:test"
NODE = "node-1"
PROJECT = str(Path(__file__).parents[2])
VOLUMES = "/api/v1/persistentvolumes"
EVENTS = "/api/v1/namespaces/default/events"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ACCOUNT = Path("run/secrets/kubernetes.io/serviceaccount")
"""Below the root; /var/run is a link that would lead out of it."""
RESOURCES = {(resource.api_version, resource.kind): resource for resource in BUILT_IN}


def localpv(*words: str, text: str = "", **env: str) -> str:
    argv = [sys.executable, "-m", "localpv", *words]
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply(api: wire.Api, text: str) -> None:
    """As `kubectl create -f -`."""
    for obj in yaml.safe_load_all(text):
        resource, metadata = RESOURCES[obj["apiVersion"], obj["kind"]], obj["metadata"]
        start = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
        space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        api.post(f"{start}{space}/{resource.plural}", obj)


class Pod:
    """The one pod of a DaemonSet on this node."""

    def __init__(self, api: wire.Api, template: dict[str, Any], folder: Path, namespace: str = "kube-system") -> None:
        self._api, self._spec, self._folder, self._namespace = api, template["spec"], folder, namespace
        self._container = self._spec["containers"][0]
        self.log = folder / "pod.log"

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        self._folder.mkdir(exist_ok=True)
        script = self._folder / "pod.sh"
        script.write_text("\n".join(self._lines()) + "\n")
        with self.log.open("wb") as log:
            argv = ["unshare", "-m", "--propagation", "private", "sh", "-e", str(script)]
            process = subprocess.Popen(argv, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})
        try:
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_SECONDS) == 0
        except AssertionError as error:
            error.add_note(self.log.read_text(errors="replace")[-3000:])
            raise
        finally:
            process.kill()
            process.wait()

    def _lines(self) -> Iterator[str]:
        """A root that is the machine's to read and its own to write, with the pod's mounts on it."""
        own = self._folder / "own"
        own.mkdir(exist_ok=True)
        root = own / "root"
        yield f"mount -t tmpfs tmpfs {own}"
        yield f"mkdir {own}/upper {own}/work {root}"
        yield f"mount -t overlay overlay -o lowerdir=/,upperdir={own}/upper,workdir={own}/work {root}"
        for shared in ("/proc", "/sys", "/dev"):
            yield f"mount --rbind {shared} {root}{shared}"
        mounts = {mount["name"]: mount["mountPath"] for mount in self._container["volumeMounts"]}
        for volume in self._spec["volumes"]:
            inside = f"{root}{mounts[volume['name']]}"
            if "hostPath" in volume:
                # The host's folder is what this test made of it, seen at the path that the manifest gives it.
                host = self._folder / "host" / volume["hostPath"]["path"].lstrip("/")
                host.mkdir(parents=True, exist_ok=True)
                if volume["hostPath"]["path"] in ("/dev", "/run/udev"):
                    continue
                yield f"mkdir -p {shlex.quote(inside)} && mount --rbind {host} {shlex.quote(inside)}"
            elif "configMap" in volume:
                source = f"/api/v1/namespaces/{self._namespace}/configmaps/{volume['configMap']['name']}"
                files = self._folder / volume["name"]
                files.mkdir()
                for key, text in self._api.get(source)["data"].items():
                    (files / key).write_text(text)
                yield f"mkdir -p {inside} && mount --bind {files} {inside}"
            else:
                yield f"mkdir -p {inside} && mount -t tmpfs tmpfs {inside}"
                for needed in (PROJECT, sys.prefix):  # in an image they would not be where the pod keeps its files
                    if Path(needed).is_relative_to(mounts[volume["name"]]):
                        yield f"mkdir -p {root}{needed} && mount --bind {needed} {root}{needed}"
        yield from self._account(root)
        yield f"exec env -i {self._environment()} chroot {root} {self._command()}"

    def _account(self, root: Path) -> Iterator[str]:
        name = self._spec.get("serviceAccountName") or self._spec["serviceAccount"]
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{name}/token"
        files = self._folder / "account"
        files.mkdir(exist_ok=True)
        (files / "token").write_text(self._api.post(path, {"spec": {}})["status"]["token"])
        (files / "namespace").write_text(self._namespace)
        cluster = yaml.safe_load(self._api.target.kubeconfig.read_text())["clusters"][0]["cluster"]
        authority = subprocess.check_output(["base64", "-d"], input=cluster["certificate-authority-data"].encode())
        (files / "ca.crt").write_bytes(authority)
        self._server = urllib.parse.urlsplit(cluster["server"])
        yield f"mkdir -p {root / ACCOUNT} && mount --bind {files} {root / ACCOUNT}"

    def _environment(self) -> str:
        fields = {"spec.nodeName": NODE, "metadata.namespace": self._namespace}
        given = {
            each["name"]: each.get("value") or fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in self._container.get("env", ())
        }
        made = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/",
            "KUBERNETES_SERVICE_HOST": str(self._server.hostname),
            "KUBERNETES_SERVICE_PORT": str(self._server.port),
            **given,
        }
        return " ".join(f"{key}={shlex.quote(value)}" for key, value in made.items())

    def _command(self) -> str:
        """The image's entry point with the pod's arguments; its port may be taken on a machine without pods."""
        assert "command" not in self._container
        arguments = [each.replace(":8080", "127.0.0.1:0") for each in self._container.get("args", ())]
        return shlex.join([sys.executable, "-m", "localpv", *arguments])


@pytest.fixture
def api(tmp_path: Path) -> Iterator[wire.Api]:
    for folder in ("mnt/ssds/ssd-1", "mnt/hdds/hdd-1"):
        (tmp_path / "pod" / "host" / folder).mkdir(parents=True)
    with engine_process.running(data=tmp_path / "data", options=["--node", NODE]) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        yield client
        client.close()


def offered(api: wire.Api) -> dict[str, str]:
    found = api.get(VOLUMES)["items"]
    return {volume["spec"]["local"]["path"]: volume["spec"]["storageClassName"] for volume in found}


BOTH = {"/mnt/ssds/ssd-1": "local-fast", "/mnt/hdds/hdd-1": "local-slow"}


@pytest.mark.seed("CFG-8")
def test_daemon_set_of_the_documents_offers_what_is_in_its_directories(api: wire.Api, tmp_path: Path) -> None:
    written = [documents.CONFIG_MAP, documents.daemon_set(IMAGE)]
    apply(api, localpv("translate", "-f", "-", text=yaml.safe_dump_all(written)))
    apply(api, yaml.safe_dump_all(documents.rights()))
    made = api.get("/apis/apps/v1/namespaces/kube-system/daemonsets/local-storage-provisioner")
    pod = Pod(api, made["spec"]["template"], tmp_path / "pod")

    def asked_for(reason: str = "NoStorageClass") -> str:
        chosen = f"involvedObject.kind=Node,involvedObject.name={NODE},reason={reason}"
        return " ".join(event["message"] for event in api.get(EVENTS, fieldSelector=chosen)["items"])

    with pod.running():
        wire.eventually(lambda: "local-fast, local-slow" in asked_for(), "the classes that are missing are asked for")
        assert "kubernetes.io/no-provisioner" in asked_for()
        for name in ("local-fast", "local-slow"):
            api.post(STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner"})
        wire.eventually(lambda: offered(api) == BOTH, "everything is offered")
        said = wire.eventually(lambda: asked_for("RecordsNotKept"), "it is told that nothing outlives the pod")
        assert "/var/lib/localpv/agent goes with the pod" in said and "hostPath" in said


@pytest.mark.seed("CFG-8")
def test_daemon_set_without_its_config_map_or_its_rights_says_what_is_missing(api: wire.Api, tmp_path: Path) -> None:
    template = documents.daemon_set(IMAGE)["spec"]["template"]
    apply(api, yaml.safe_dump_all(documents.rights()))
    with (pod := Pod(api, template, tmp_path / "pod")).running() as process:
        assert process.wait(PATIENCE_SECONDS) == 1
    said = pod.log.read_text()
    assert "namespace kube-system has no ConfigMap local-volume-config or local-volume-default-config" in said
    assert "hint: create one with the key storageClassMap" in said

    api.delete("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings/local-storage-config")
    with (pod := Pod(api, template, tmp_path / "pod")).running() as process:
        assert process.wait(PATIENCE_SECONDS) == 1
    said = pod.log.read_text()
    assert "ConfigMap kube-system/local-volume-config may not be read" in said
    assert "hint: allow it: kubectl -n kube-system create role" in said


@pytest.mark.seed("CFG-9", "CFG-4")
def test_steps_of_the_bootstrapper_end_in_volumes(api: wire.Api, tmp_path: Path) -> None:
    text = yaml.safe_dump(documents.SHORT_CONFIG_MAP)
    apply(api, localpv("translate", "-f", "-", text=text))
    command = ("bootstrap", "-n", "kube-system", "--kubeconfig", str(api.target.kubeconfig))
    said = localpv(*command, "-image", IMAGE, "-volume-config", "local-volume-config")
    assert "storageclasses.storage.k8s.io/local-fast created" in said
    made = api.get("/apis/apps/v1/namespaces/kube-system/daemonsets/local-volume-provisioner")
    with Pod(api, made["spec"]["template"], tmp_path / "pod").running():
        wire.eventually(lambda: offered(api) == BOTH, "everything is offered")
    chosen = "involvedObject.kind=Node,reason=RecordsNotKept"
    assert api.get(EVENTS, fieldSelector=chosen)["items"] == [], "the bootstrapper mounts a folder of the node"
    assert api.get(f"{STORAGE_CLASSES}/local-slow")["volumeBindingMode"] == "WaitForFirstConsumer"
