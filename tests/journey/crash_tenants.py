"""Disks with tenants that come and go, as seen from outside: the API, and what is on the disk.

Each disk is taken through its circle one small step per look. Servers die under a step as under any other: what is not
known to have happened is looked up at the next one. The engine alone has no binder, so tenants bind themselves.
"""

from __future__ import annotations

import http.client
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract import wire

from localpv.host import loop

VOLUMES = "/api/v1/persistentvolumes"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
MARK = b"the old tenant's secret "
MIB = 1 << 20


class Folder:
    """A directory, plain or with a file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> None:
        (self.path / "deep" / "er").mkdir(parents=True)
        for number in range(40):
            (self.path / "deep" / f"file-{number}").write_bytes(MARK)
        (self.path / "deep" / "er" / "secret").write_bytes(MARK)

    def is_marked(self) -> bool:
        return len([*self.path.rglob("file-*")]) == 40 and (self.path / "deep" / "er" / "secret").exists()

    def is_clean(self) -> bool:
        return not [*self.path.iterdir()]


class Device:
    """A raw device."""

    SIZE = 4 * MIB

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> None:
        with self.path.open("r+b") as device:
            device.write((MARK * (self.SIZE // len(MARK) + 1))[: self.SIZE])
            device.flush()

    def is_marked(self) -> bool:
        return MARK * (self.SIZE // len(MARK)) in self.path.read_bytes()

    def is_clean(self) -> bool:
        return MARK not in self.path.read_bytes()


class Server:
    """The API server, which may be dead."""

    def __init__(self, kubeconfig: Path) -> None:
        target = wire.read_kubeconfig(kubeconfig, controllers=True)
        self._api = wire.Api(target, target.token)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, or None when there was none, or it was no."""
        kind = wire.MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            answer = self._api.send(method, path, body, content_type=kind)
        except (OSError, http.client.HTTPException):
            self._api.close()
            return None
        return answer.body if answer.code < 300 else None

    def close(self) -> None:
        self._api.close()


@dataclass
class Tenants:
    """The tenants of one disk, one after the other."""

    entry: str
    storage_class: str
    disk: Folder | Device
    server: Server
    kills: Callable[[], int]
    """How many deaths there were so far."""

    rounds: int = 0
    """Circles that went to their end and had a death in them."""

    steps: int = 0
    """How often something new was seen."""

    claim: str = ""
    state: Callable[[Any], None] = field(init=False)
    _uid: str = ""
    _kills: int = 0
    _by_hand: bool = False

    def __post_init__(self) -> None:
        self.state = self._free

    @property
    def path(self) -> str:
        return str(self.disk.path)

    def look(self, volume: Any) -> None:
        """Go on with the volume of the disk as it is now, or with None."""
        before = self.state
        self.state(volume)
        self.steps += self.state != before

    def _free(self, volume: Any) -> None:
        if volume is None or _leaves(volume) or volume["spec"].get("claimRef"):
            return
        assert self.disk.is_clean(), f"{self.entry} is offered with what its last tenant has left"
        if volume["status"]["phase"] != "Available":
            self._set_phase(volume, "Available")
            return
        self.claim, self._kills = str(uuid.uuid4()), self.kills()
        claim = {"namespace": "default", "name": "data", "uid": self.claim}
        self._patch(volume, {"spec": {"claimRef": claim}}, same=True)
        self.state = self._binding

    def _binding(self, volume: Any) -> None:
        if volume is None or not self._is_ours(volume):
            self.state = self._free  # the claim did not get through
        elif volume["status"]["phase"] != "Bound":
            self._set_phase(volume, "Bound")
        else:
            self.disk.mark()
            self._uid = volume["metadata"]["uid"]
            self.state = self._bound

    def _bound(self, volume: Any) -> None:
        assert volume is not None and self._is_ours(volume), f"the volume of {self.entry} is gone while it is bound"
        assert self.disk.is_marked(), f"{self.entry} was wiped while it was bound"
        self._by_hand = self.storage_class == "kept" or (self.storage_class == "fast" and self.rounds % 3 == 2)
        self._set_phase(volume, "Released")
        self.state = self._released

    def _released(self, volume: Any) -> None:
        if volume is not None and self._is_ours(volume):
            if volume["status"]["phase"] != "Released":
                self._set_phase(volume, "Released")
            elif self._by_hand and not _leaves(volume):
                assert self.storage_class != "kept" or self.disk.is_marked(), f"{self.entry} was to be kept"
                self.server.ask("DELETE", f"{VOLUMES}/{volume['metadata']['name']}")
        elif volume is None and self.storage_class == "kept":
            self._wipe_kept()
        elif volume is not None and not volume["spec"].get("claimRef") and not _leaves(volume):
            recycled = volume["metadata"]["uid"] == self._uid
            assert recycled is (self.storage_class == "cycle"), f"{self.entry} came back as {volume['metadata']}"
            self.rounds += self.kills() > self._kills
            self.state = self._free
            self._free(volume)

    def _wipe_kept(self) -> None:
        """What `localpv wipe` does, once the disk says that it is not clean."""
        listed = self.server.ask("GET", DISKS) or {"items": []}
        disk = next((each for each in listed["items"] if each["spec"]["entry"] == self.entry), None)
        offered = disk["spec"].get("volume") if disk is not None else None
        if offered is None or offered.get("uid") != self._uid or disk["spec"].get("clean"):
            return
        if not any(each["reason"] == "NotCleaned" for each in disk["status"].get("conditions", ())):
            return
        assert self.disk.is_marked(), f"{self.entry} was to be kept"
        order = {"volumeName": offered["name"], "volumeUID": self._uid, "requestedAt": "2030-01-01T00:00:00Z"}
        meta = {"resourceVersion": disk["metadata"]["resourceVersion"]}
        self.server.ask("PATCH", f"{DISKS}/{disk['metadata']['name']}", {"metadata": meta, "spec": {"clean": order}})

    def _is_ours(self, volume: Any) -> bool:
        return bool((volume["spec"].get("claimRef") or {}).get("uid") == self.claim)

    def _set_phase(self, volume: Any, phase: str) -> None:
        path = f"{VOLUMES}/{volume['metadata']['name']}/status"
        self.server.ask("PATCH", path, {"status": {"phase": phase}})

    def _patch(self, volume: Any, patch: Any, *, same: bool) -> None:
        meta = volume["metadata"]
        version = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}} if same else {}
        self.server.ask("PATCH", f"{VOLUMES}/{meta['name']}", {**patch, **version})


def _leaves(volume: Any) -> bool:
    return "deletionTimestamp" in volume["metadata"]


def attach(file: Path) -> Path:
    """A blank loop device."""
    file.write_bytes(bytes(Device.SIZE))
    return loop.attach(file)


def mount(at: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "localpv-crash", str(at)], check=True)
