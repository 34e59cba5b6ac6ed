"""What a node asks the API about the volumes of its pods."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Protocol

from localpv import errors
from localpv.api import kinds
from localpv.api.kinds.cluster import Secret
from localpv.api.resources import BUILT_IN
from localpv.client.client import Client
from localpv.engine.kubelet.volumes import unsupported

_SERVICE_ACCOUNTS = next(resource for resource in BUILT_IN if resource.kind == "ServiceAccount")


class Lookup(Protocol):
    """Objects as they are now; None when there is none."""

    async def claim(self, namespace: str, name: str) -> kinds.PersistentVolumeClaim | None: ...

    async def volume(self, name: str) -> kinds.PersistentVolume | None: ...

    async def volume_source(self, name: str) -> str:
        """Where the data of a volume is, by the name of the field that says it; empty when there is no such volume."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Keys and what is in them."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Keys and what is in them."""

    async def node(self) -> kinds.Node | None: ...

    async def token(self, pod: kinds.Pod, *, audience: str, seconds: int) -> tuple[str, str]:
        """A token for the pod's service account that ends with the pod, and when it ends."""


class ApiLookup:
    """Asks the API server each time: a pod starts rarely, and must not start with what was true a second ago."""

    def __init__(self, client: Client, *, node: str) -> None:
        self._node = node
        self._claims = client.objects(kinds.PersistentVolumeClaim)
        self._volumes = client.objects(kinds.PersistentVolume)
        self._any_volumes = client.untyped(kinds.PersistentVolume.resource)
        self._config_maps = client.objects(kinds.ConfigMap)
        self._secrets = client.objects(Secret)
        self._nodes = client.objects(kinds.Node)
        self._accounts = client.untyped(_SERVICE_ACCOUNTS)

    async def claim(self, namespace: str, name: str) -> kinds.PersistentVolumeClaim | None:
        return await self._claims.find(name, namespace)

    async def volume(self, name: str) -> kinds.PersistentVolume | None:
        return await self._volumes.find(name)

    async def volume_source(self, name: str) -> str:
        found = await self._any_volumes.find(name)
        spec = found["spec"] if found is not None else {}
        return next((field for field in spec if field not in unsupported.NOT_SOURCES), "")

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = await self._config_maps.find(name, namespace)
        if found is None:
            return None
        return {key: text.encode() for key, text in found.data.items()} | _decoded(found.binary_data)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = await self._secrets.find(name, namespace)
        return None if found is None else _decoded(found.data)

    async def node(self) -> kinds.Node | None:
        return await self._nodes.find(self._node)

    async def token(self, pod: kinds.Pod, *, audience: str, seconds: int) -> tuple[str, str]:
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
