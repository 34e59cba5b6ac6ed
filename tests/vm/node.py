"""A node in the virtual machine: `localpv up` over classes that differ in how they clean, and real disks to offer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.contract import wire

T = TypeVar("T")

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
PATIENCE_SECONDS = 400.0
"""Emulated, all takes ten times as long."""

RULED = Path("/dev/disk/localpv")
"""Where the rule of udev below puts links to disks that come later: the discovery directory of class `ruled`."""

RULE = (
    'SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="*PLUGGED*", SYMLINK+="disk/localpv/$env{ID_SERIAL}"\n'
)

STORED = "stored"
LINKS = Path("/dev/disk/kubernetes-local-storage") / STORED / "block"
"""Where rules of LocalStorages put links to disks of this class."""

CLEANERS = {
    "reset": (),
    "zero": ("dd-zero",),
    "shred": ("shred", "1"),
    "discard": ("blkdiscard",),
    "erase": ("hdparm",),
    "format": ("nvme-format",),
    "own": ("/run/own-cleaner", "argument"),
    "ruled": ("blkdiscard",),
}
"""Each class with its cleaner."""


class Node:
    """Everything of localpv on this machine, in one process."""

    def __init__(self, folder: Path, *, cleaners: Mapping[str, Sequence[str]] = CLEANERS) -> None:
        self.folder, self._cleaners = folder, cleaners
        self._data, self._config = folder / "data", folder / "config"
        self._process: subprocess.Popen[str] | None = None
        self.api: Any = None

    def start(self) -> None:
        self._config.mkdir(parents=True, exist_ok=True)
        settings, classes = {}, []
        for name, cleaner in self._cleaners.items():
            self.place(name).mkdir(parents=True, exist_ok=True)
            settings[name] = {"hostDir": str(self.place(name)), "volumeMode": "Block"}
            if cleaner:
                settings[name] |= {"blockCleanerCommand": list(cleaner)}  # type: ignore[dict-item]
            classes.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "StorageClass",
                    "metadata": {"name": name},
                    "provisioner": "kubernetes.io/no-provisioner",
                    "volumeBindingMode": "Immediate",
                }
            )
        if classes:
            (self._config / "storageClassMap").write_text(json.dumps(settings))
            (self._config / "classes.yaml").write_text("\n---\n".join(map(json.dumps, classes)))
        options = ["--listen", "127.0.0.1:0", "--data", str(self._data), "--config", str(self._config)]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "localpv", "up", "--node", "vm", *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("ready "), self.log.read_text()[-3000:]
        target = wire.read_kubeconfig(self.kubeconfig, controllers=True)
        self.api = wire.Api(target, target.token)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_SECONDS)
            assert self._process.stdout is not None
            self._process.stdout.close()
            if self.api is not None:
                self.api.close()

    @property
    def log(self) -> Path:
        return self.folder / "up.log"

    @property
    def kubeconfig(self) -> Path:
        return self._data / "kubeconfig"

    @staticmethod
    def place(storage_class: str) -> Path:
        """The discovery directory of a class."""
        return {"ruled": RULED, STORED: LINKS}.get(storage_class, Path("/mnt/disks") / storage_class)

    @contextmanager
    def linked(self, storage_class: str, entry: str, device: Path) -> Iterator[Path]:
        """A link to a device among the disks of a class; what is known of it is gone at the end."""
        link = self.place(storage_class) / entry
        link.symlink_to(device)
        try:
            yield link
        finally:
            link.unlink(missing_ok=True)
            self.forget(storage_class, entry)

    def forget(self, storage_class: str, entry: str) -> None:
        """Take volume and record away, whatever state they are in."""

        def gone() -> bool:
            path = str(self.place(storage_class) / entry)
            names = [volume["metadata"]["name"] for volume in self._volumes(path)]
            left = [f"{kind}/{name}" for name in names for kind in (CLAIMS, VOLUMES)]
            if (disk := self.find(storage_class, entry)) is not None:
                left.append(f"{DISKS}/{disk['metadata']['name']}")
            for each in left:
                self.api.send("DELETE", each)
                self.api.send("PATCH", each, {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH)
            return not left

        self.eventually(gone, f"{entry} is forgotten")

    # What is seen of it.

    def _volumes(self, path: str) -> list[Any]:
        return [pv for pv in self.api.get(VOLUMES)["items"] if pv["spec"]["local"]["path"] == path]

    def find(self, storage_class: str, entry: str) -> Any:
        """The LocalDisk of an entry, or None."""
        for disk in self.api.get(DISKS)["items"]:
            if (disk["spec"]["storageClassName"], disk["spec"]["entry"]) == (storage_class, entry):
                return {"status": {}} | disk
        return None

    def disk(self, storage_class: str, entry: str, is_so: Callable[[Any], object] = bool) -> Any:
        """The LocalDisk of an entry, once it is as wanted; what it was like at last is told when it never is."""
        seen: list[Any] = [None]

        def look() -> Any:
            seen[0] = self.find(storage_class, entry)
            return seen[0] if seen[0] is not None and is_so(seen[0]) else None

        try:
            return self.eventually(look, f"{entry} is as wanted")
        except AssertionError as error:
            raise AssertionError(f"{error}; at last it was {json.dumps(seen[0], indent=1)}") from None

    def refused(self, storage_class: str, entry: str, reason: str) -> Any:
        """The LocalDisk of an entry, once it is not offered for a reason; there is no volume then."""
        disk = self.disk(
            storage_class,
            entry,
            lambda disk: disk["status"].get("reason") == reason and not disk["status"].get("eligible"),
        )
        assert not self._volumes(disk["spec"]["path"])
        assert disk["status"]["message"]
        return disk

    def cleaning(self, storage_class: str, entry: str, state: str, reason: str = "") -> Any:
        """The LocalDisk of an entry, once its cleaning has come to a state."""

        def is_so(disk: Any) -> bool:
            seen = disk["status"].get("cleaning") or {}
            return seen.get("state") == state and reason in ("", seen.get("reason"))

        return self.disk(storage_class, entry, is_so)

    def volume(self, storage_class: str, entry: str, *, not_uid: str = "") -> Any:
        """The volume that offers an entry, once there is one."""

        def offered() -> Any:
            for volume in self._volumes(str(self.place(storage_class) / entry)):
                meta = volume["metadata"]
                if meta["uid"] != not_uid and not meta.get("deletionTimestamp"):
                    return volume
            return None

        try:
            return self.eventually(offered, f"{entry} is offered")
        except AssertionError as error:
            raise AssertionError(f"{error}; its disk is {json.dumps(self.find(storage_class, entry))}") from None

    def volume_is(self, volume: Any) -> Any:
        """The same volume as it is now, or None."""
        answer = self.api.send("GET", f"{VOLUMES}/{volume['metadata']['name']}")
        return answer.body if answer.code == 200 and _uid(answer.body) == _uid(volume) else None

    # What the cluster does.

    def bind(self, volume: Any) -> None:
        """A claim takes the volume."""
        name, spec = volume["metadata"]["name"], volume["spec"]
        claim = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": spec["accessModes"],
                "volumeMode": spec["volumeMode"],
                "storageClassName": spec["storageClassName"],
                "volumeName": name,
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
        self.api.post(CLAIMS, claim)
        self.eventually(lambda: self.volume_is(volume)["status"]["phase"] == "Bound", f"{name} is bound")

    def release(self, volume: Any) -> None:
        """The claim goes."""
        path = f"{CLAIMS}/{volume['metadata']['name']}"
        if self.api.gone(path):
            self.bind(volume)
        self.api.delete(path)

    def comes_back(self, storage_class: str, entry: str, before: Any) -> Any:
        """Another volume offers the entry."""
        return self.volume(storage_class, entry, not_uid=_uid(before))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of localpv."""
        return subprocess.run(
            [sys.executable, "-m", "localpv", *words, "--kubeconfig", str(self.kubeconfig)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    @staticmethod
    def eventually(look: Callable[[], T], what: str) -> T:
        """Look again and again until there is something; not too often, for who looks takes the processor from who is
        looked at."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (seen := look()):
            assert time.monotonic() < until, f"not within {PATIENCE_SECONDS:g} s: {what}"
            time.sleep(0.2)
        return seen


def _uid(thing: Any) -> str:
    return str(thing["metadata"]["uid"])
