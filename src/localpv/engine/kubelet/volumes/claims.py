"""From the volume of a pod to the PersistentVolume behind it, and all else that a node asks the API about volumes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap, Node, Secret
from localpv.api.kinds.csi import CSIDriver
from localpv.api.kinds.pods import Pod, Volume
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN
from localpv.client.client import Client
from localpv.engine.kubelet.volumes import volume_spec
from localpv.engine.kubelet.volumes.volume_spec import NotReady
from localpv.volume import fit

_SERVICE_ACCOUNTS = next(resource for resource in BUILT_IN if resource.kind == "ServiceAccount")


class Lookup(Protocol):
    """Objects as they are now; None when there is none."""

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None: ...

    async def volume(self, name: str) -> PersistentVolume | None: ...

    async def volume_source(self, name: str) -> str:
        """Where the data of a volume is, by the name of the field that says it; empty when there is no such volume."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Keys and what is in them."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Keys and what is in them."""

    async def node(self) -> Node | None: ...

    async def csi_driver(self, name: str) -> CSIDriver | None: ...

    async def set_claim_status(self, claim: PersistentVolumeClaim, status: Object) -> None:
        """Change the status of a claim; Conflict when the claim is not as it was."""

    async def token(self, pod: Pod, *, audience: str, seconds: int) -> tuple[str, str]:
        """A token for the pod's service account that ends with the pod, and when it ends."""


class ApiLookup:
    """Asks the API server each time: a pod starts rarely, and must not start with what was true a second ago."""

    def __init__(self, client: Client, *, node: str) -> None:
        self._node = node
        self._claims = client.objects(PersistentVolumeClaim)
        self._volumes = client.objects(PersistentVolume)
        self._any_volumes = client.untyped(PersistentVolume.resource)
        self._config_maps = client.objects(ConfigMap)
        self._secrets = client.objects(Secret)
        self._nodes = client.objects(Node)
        self._csi_drivers = client.objects(CSIDriver)
        self._accounts = client.untyped(_SERVICE_ACCOUNTS)

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return await self._claims.find(name, namespace)

    async def volume(self, name: str) -> PersistentVolume | None:
        return await self._volumes.find(name)

    async def volume_source(self, name: str) -> str:
        found = await self._any_volumes.find(name)
        spec = found["spec"] if found is not None else {}
        return next((field for field in spec if field not in volume_spec.NOT_SOURCES), "")

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = await self._config_maps.find(name, namespace)
        if found is None:
            return None
        return {key: text.encode() for key, text in found.data.items()} | _decoded(found.binary_data)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = await self._secrets.find(name, namespace)
        return None if found is None else _decoded(found.data)

    async def node(self) -> Node | None:
        return await self._nodes.find(self._node)

    async def csi_driver(self, name: str) -> CSIDriver | None:
        return await self._csi_drivers.find(name)

    async def set_claim_status(self, claim: PersistentVolumeClaim, status: Object) -> None:
        meta = claim.metadata
        same = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        await self._claims.patch(meta.name, {"metadata": same, "status": status}, meta.namespace, subresource="status")

    async def token(self, pod: Pod, *, audience: str, seconds: int) -> tuple[str, str]:
        meta = pod.metadata
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": seconds,
                "boundObjectRef": bound,
            },
        }
        account = pod.spec.service_account_name or "default"
        answer = await self._accounts.call(account, "token", request, meta.namespace)
        status = answer.get("status", {})
        if not status.get("token"):
            raise errors.InternalError(f"the API server gave no token for service account {account}")
        return str(status["token"]), str(status.get("expirationTimestamp", ""))


def _decoded(values: Mapping[str, str]) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A claim's volume."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    spec: volume_spec.Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How containers of a pod use its volumes, by the names of those."""

    mounted: frozenset[str]
    mapped: frozenset[str]

    @classmethod
    def of(cls, pod: Pod) -> Use:
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        return cls(
            mounted=frozenset(mount.name for container in containers for mount in container.volume_mounts),
            mapped=frozenset(device.name for container in containers for device in container.volume_devices),
        )


async def find(pod: Pod, volume: Volume, *, lookup: Lookup, use: Use, has: frozenset[str] = frozenset()) -> Bound:
    """The volume behind a claim of the pod; NotReady when it has none yet, or none that this pod can have here.

    `has` are the volumes that the pod was given before: a claim that is being deleted keeps those, and begins no other.
    """
    claim_name, read_only = _claim(pod, volume)
    namespace = pod.metadata.namespace
    claim = await lookup.claim(namespace, claim_name)
    if claim is None:
        raise NotReady("ClaimMissing", f"claim {namespace}/{claim_name} does not exist", hint="create the claim")
    if volume.ephemeral is not None and not _owns(pod, claim):
        raise NotReady(
            "ClaimOfAnother",
            f"claim {namespace}/{claim_name} was not made for this pod",
            hint="rename the pod, or delete the claim if nobody needs it",
        )
    if claim.metadata.deleting and claim.spec.volume_name not in has:
        raise NotReady("ClaimDeleted", f"claim {namespace}/{claim_name} is being deleted")
    if claim.status.phase == "Lost":
        raise NotReady("ClaimLost", f"the volume of claim {namespace}/{claim_name} is gone")
    if claim.status.phase != "Bound" or not claim.spec.volume_name:
        raise NotReady("ClaimNotBound", f"claim {namespace}/{claim_name} is not bound to a volume yet")
    found = await lookup.volume(claim.spec.volume_name)
    if found is None:
        raise NotReady("VolumeMissing", f"volume {claim.spec.volume_name} of claim {claim_name} does not exist")
    reference = found.spec.claim_ref
    if reference is None or reference.uid != claim.metadata.uid:
        # Somebody else's volume, or one that waits to be cleaned: never to be shown to this pod.
        raise NotReady(
            "VolumeOfAnother", f"volume {found.metadata.name} does not belong to claim {namespace}/{claim_name}"
        )
    if found.spec.local is None and found.spec.csi is None:
        source = await lookup.volume_source(found.metadata.name)
        raise NotReady(
            "NotSupported",
            f"volume {found.metadata.name} of claim {namespace}/{claim_name} has the source {source or 'unknown'}, and"
            " the embedded engine serves local volumes and those of CSI drivers only",
            hint=volume_spec.instead(source),
            event=volume_spec.event_of(found),
        )
    spec = volume_spec.spec_of(found, read_only=read_only)
    _refuse_wrong_use(volume, spec, use)
    node = await lookup.node()
    if node is not None and not fit.fits_node(found, node):
        raise NotReady(
            "WrongNode",
            f"the node affinity of volume {found.metadata.name} does not let it be on node {node.metadata.name}",
            hint="leave nodeName out: a scheduler finds the right node",
            event=spec.event,
        )
    return Bound(claim=claim, volume=found, spec=spec)


async def confirm(pod: Pod, volume: Volume, bound: Bound, *, lookup: Lookup) -> None:
    """NotReady unless the volume still belongs to the claim, asked once more after the pod was given it.

    A claim may go while its volume is being set up, and then the volume is cleaned for somebody else. Whoever cleans
    looks for mounts and holds first: one that began before ours was there is seen here, a later one sees ours.
    """
    claim = await lookup.claim(pod.metadata.namespace, name_of(pod, volume))
    now = await lookup.volume(bound.volume.metadata.name)
    owner = now.spec.claim_ref.uid if now is not None and now.spec.claim_ref is not None else ""
    before = bound.volume.spec.claim_ref
    assert before is not None
    same_volume = now is not None and now.metadata.uid == bound.volume.metadata.uid and owner == before.uid
    if claim is None or claim.metadata.uid != before.uid or not same_volume:
        raise NotReady(
            "ClaimGone",
            f"the claim of volume {bound.volume.metadata.name} went while the volume was being set up",
            event=bound.spec.event,
        )


def name_of(pod: Pod, volume: Volume) -> str:
    """The name of the claim that a volume of the pod names, or that is made for it."""
    return _claim(pod, volume)[0]


def _claim(pod: Pod, volume: Volume) -> tuple[str, bool]:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name, volume.persistent_volume_claim.read_only
    return f"{pod.metadata.name}-{volume.name}", False


def _owns(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    return any(owner.uid == pod.metadata.uid and owner.controller for owner in claim.metadata.owner_references)


def _refuse_wrong_use(volume: Volume, spec: volume_spec.Spec, use: Use) -> None:
    if spec.mode == volume_spec.BLOCK and volume.name in use.mounted:
        raise NotReady(
            "WrongVolumeMode",
            f"volume {volume.name} is a raw device (volumeMode Block), but a container names it in volumeMounts",
            hint="use volumeDevices, or a claim with volumeMode Filesystem",
            event=spec.event,
        )
    if spec.mode != volume_spec.BLOCK and volume.name in use.mapped:
        raise NotReady(
            "WrongVolumeMode",
            f"volume {volume.name} has a file system, but a container names it in volumeDevices",
            hint="use volumeMounts, or a claim with volumeMode Block",
            event=spec.event,
        )
