"""Claims, volumes and classes of one test, and waiting for what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.contract import builders, wire
from tests.contract.builders import Object
from tests.contract.spaces import Space

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


@dataclass
class Place:
    """A namespace, a class, and what is in them."""

    api: wire.Api
    space: Space
    class_name: str = field(default_factory=lambda: builders.unique("placing"))

    def storage_class(self, *, waits: bool = False, name: str | None = None, **fields: Any) -> str:
        mode = "WaitForFirstConsumer" if waits else "Immediate"
        made = builders.storage_class(name or self.class_name, volumeBindingMode=mode, **fields)
        self.api.post(CLASSES, made)
        return str(made["metadata"]["name"])

    def node(self, name: str | None = None, **labels: str) -> str:
        made = builders.node(name or builders.unique("node"))
        named = made["metadata"]["name"]
        made["metadata"]["labels"] = {"kubernetes.io/hostname": named, **labels}
        self.api.post("/api/v1/nodes", made)
        return str(named)

    def volume(
        self,
        *,
        size: str = "10Gi",
        node: str = "node-1",
        claim: Object | None = None,
        labels: Object | None = None,
        annotations: Object | None = None,
        **spec: Any,
    ) -> str:
        """A volume of this test's class; `claim` pre-binds it. It is there, but maybe not Available yet."""
        whole = {
            "capacity": {"storage": size},
            "storageClassName": self.class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": builders.node_affinity(node),
            "claimRef": claim,
        }
        made = builders.local_volume(builders.unique("volume"), **{**whole, **spec})
        made["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
        return str(self.api.post(VOLUMES, made)["metadata"]["name"])

    def claim(
        self, *, size: str = "1Gi", name: str | None = None, annotations: Object | None = None, **spec: Any
    ) -> str:
        """A claim of this test's class."""
        whole = {"storageClassName": self.class_name, "resources": {"requests": {"storage": size}}}
        made = builders.claim(name or builders.unique("claim"), **{**whole, **spec})
        made["metadata"]["annotations"] = annotations or {}
        return str(self.api.post(self.space.core("persistentvolumeclaims"), made)["metadata"]["name"])

    def reference(self, name: str, uid: str = "") -> Object:
        """A claimRef of a claim that need not exist yet."""
        named = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.space.name, "name": name}
        return named | ({"uid": uid} if uid else {})

    def claim_path(self, name: str) -> str:
        return self.space.core("persistentvolumeclaims", name)

    def volume_path(self, name: str) -> str:
        return f"{VOLUMES}/{name}"

    def get_claim(self, name: str) -> Object:
        return dict(self.api.get(self.claim_path(name)))

    def get_volume(self, name: str) -> Object:
        return dict(self.api.get(self.volume_path(name)))

    def delete_claim(self, name: str) -> None:
        self.api.delete(self.claim_path(name))

    def until_claim(self, name: str, phase: str) -> Object:
        """The claim, once it is in a phase."""
        return self._until(self.claim_path(name), phase)

    def until_volume(self, name: str, phase: str) -> Object:
        return self._until(self.volume_path(name), phase)

    def until_reference(self, name: str, uid: str | None) -> None:
        """Wait until the volume names a claim with this UID; "" for a claim without one, None for no claim."""

        def look() -> bool:
            reference = self.get_volume(name)["spec"].get("claimRef")
            return (None if reference is None else reference.get("uid", "")) == uid

        wire.eventually(look, f"the claimRef of {name} has the uid {uid!r}")

    def available(self, **volume: Any) -> str:
        """A volume that is ready to be taken."""
        name = self.volume(**volume)
        self.until_volume(name, "Available")
        return name

    def bound(self, **claim: Any) -> tuple[str, str]:
        """A new claim, once it is bound, and the volume it got."""
        name = self.claim(**claim)
        return name, str(self.until_claim(name, "Bound")["spec"]["volumeName"])

    def until_event(self, name: str, reason: str, *, kind: str = "PersistentVolumeClaim") -> Object:
        """An event about an object."""

        def look() -> Object | None:
            found = self.events(name, kind=kind)
            return next((event for event in found if event["reason"] == reason), None)

        return wire.eventually(look, f"an event {reason} about {kind} {name}: {self.events(name, kind=kind)}")

    def events(self, name: str, *, kind: str = "PersistentVolumeClaim") -> list[Object]:
        where = "default" if kind == "PersistentVolume" else self.space.name
        path = f"/api/v1/namespaces/{where}/events"
        return list(self.api.get(path, fieldSelector=f"involvedObject.name={name},involvedObject.kind={kind}")["items"])

    def stays_pending(self, name: str) -> Object:
        """The claim, which got nothing although whoever binds has looked at it."""
        self.fence()
        claim = self.get_claim(name)
        assert claim["status"]["phase"] == "Pending", claim
        assert not claim["spec"].get("volumeName") or BIND_COMPLETED not in claim["metadata"].get("annotations", {})
        return claim

    def settled_volume(self, name: str) -> str:
        self.fence()
        return str(self.get_volume(name)["status"]["phase"])

    def fence(self) -> None:
        """Wait until whoever binds has seen all volumes and claims as they are now: later ones are bound already."""
        later = Place(self.api, self.space)
        later.storage_class()
        later.available()
        later.bound()

    def protection_fence(self) -> None:
        """Wait until whoever keeps volumes and claims in use has seen all deletions: later ones are carried out."""
        # Of two classes: they must not be bound to each other.
        one, other = Place(self.api, self.space), Place(self.api, self.space)
        for path in (one.volume_path(one.available()), other.claim_path(other.claim())):
            self.api.delete(path)
            wire.eventually(lambda path=path: self.api.gone(path), f"{path} is gone")

    def _until(self, path: str, phase: str) -> Object:
        def look() -> Object | None:
            answer = self.api.send("GET", path)
            found = answer.body
            return found if answer.code == 200 and found["status"].get("phase") == phase else None

        return dict(wire.eventually(look, f"{path} is {phase}, but it is: {self.api.send('GET', path).raw[:2000]!r}"))
