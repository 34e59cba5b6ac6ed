"""Makes, lists, grows and removes volumes and snapshots: for those who prefer the stock external-provisioner, beside it
on each node, to our manager. Both come to the same pools."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from localpv.agent.csi import requests, volumes
from localpv.agent.csi.operations import Operations
from localpv.agent.csi.volumes import Known, Pools
from localpv.agent.pools.pool import Pool, VolumeState
from localpv.csi.codec import Message
from localpv.csi.server import Handler
from localpv.csi.status import Code, RpcError
from localpv.host.model.methods import ZeroOut
from localpv.volume import pool_names

DEFAULT_BYTES: Final = 1 << 30
"""Size of a volume of which none was asked for."""

POOL: Final = "pool"
FS_TYPE: Final = "fsType"
MKFS_OPTIONS: Final = "mkfsOptions"
PARAMETERS: Final = (POOL, FS_TYPE, MKFS_OPTIONS)
"""Of a class. The last two come back to the node with the volume."""

SIDECAR_PREFIX: Final = "csi.storage.k8s.io/"
"""Parameters that external-provisioner adds, or reads itself."""

CAPABILITIES: Final = (
    "CREATE_DELETE_VOLUME",
    "LIST_VOLUMES",
    "GET_CAPACITY",
    "CREATE_DELETE_SNAPSHOT",
    "LIST_SNAPSHOTS",
    "CLONE_VOLUME",
    "EXPAND_VOLUME",
    "GET_VOLUME",
    "VOLUME_CONDITION",
    "SINGLE_NODE_MULTI_WRITER",
    "GET_SNAPSHOT",
    "GET_VOLUME_HEALTH",
    "LIST_VOLUME_HEALTH",
)


class Controller:
    def __init__(self, *, node: str, pools: Pools, operations: Operations) -> None:
        self._node, self._pools, self._operations = node, pools, operations

    def services(self) -> Mapping[str, Handler]:
        handlers = {
            "CreateVolume": self.create_volume,
            "DeleteVolume": self.delete_volume,
            "ValidateVolumeCapabilities": self.validate_volume_capabilities,
            "ListVolumes": self.list_volumes,
            "GetCapacity": self.get_capacity,
            "ControllerGetCapabilities": self.controller_get_capabilities,
            "CreateSnapshot": self.create_snapshot,
            "DeleteSnapshot": self.delete_snapshot,
            "ListSnapshots": self.list_snapshots,
            "GetSnapshot": self.get_snapshot,
            "ControllerExpandVolume": self.controller_expand_volume,
            "ControllerGetVolume": self.controller_get_volume,
            "ControllerGetVolumeHealth": self.controller_get_volume_health,
            "ControllerListVolumeHealth": self.controller_list_volume_health,
        }
        return {f"/csi.v1.Controller/{name}": handler for name, handler in handlers.items()}

    async def controller_get_capabilities(self, request: Message) -> Message:
        return {"capabilities": [{"rpc": {"type": name}} for name in CAPABILITIES]}

    # Volumes.

    async def create_volume(self, request: Message) -> Message:
        wanted = requests.required(request, "name")
        requests.capabilities(request)
        size = requests.capacity_range(request)
        parameters = self._parameters(request)
        if request.get("mutable_parameters"):
            raise requests.invalid("mutable_parameters are not served: nothing of a volume can be changed by them")
        self._refuse_elsewhere(request)
        name = volumes.volume_name(wanted)

        async def make() -> Message:
            source = await self._source(request)
            pool, existing = await self._place(name, parameters.get(POOL, ""), source)
            if existing is None:
                made = Known(pool, await self._made(pool, name, size, source))
            elif not size.suits(existing.state.size_bytes) or existing.source_id != (source.id if source else ""):
                raise RpcError(Code.ALREADY_EXISTS, f"there is another volume named {wanted[:200]}")
            elif existing.state.ready:
                made = existing
            else:  # half made, by a call that was cut short: go on with it
                source_name, size_bytes = existing.state.source, existing.state.size_bytes
                made = Known(pool, await pool.create(name, size_bytes, source=source_name))
            return {"volume": self._volume(made, parameters, request.get("volume_content_source"))}

        return await self._operations.run(f"volume {name}", make)

    async def delete_volume(self, request: Message) -> Message:
        await self._remove(requests.required(request, "volume_id"), snapshot=False)
        return {}

    async def validate_volume_capabilities(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        found = request.get("volume_capabilities", [])
        if not found:
            raise requests.invalid("volume_capabilities are missing")
        await volumes.must_find(self._pools, volume_id)
        try:
            requests.capabilities(request)
        except RpcError as reason:
            return {"message": reason.message}
        kept = ("volume_context", "parameters")
        confirmed = {field: request[field] for field in kept if field in request}
        return {"confirmed": {**confirmed, "volume_capabilities": found}}

    async def list_volumes(self, request: Message) -> Message:
        found = await volumes.every(self._pools, snapshots=False)
        names, token = requests.page(request, list(found))
        entries = [{"volume": self._volume(found[name]), "status": _status(found[name])} for name in names]
        return {"entries": entries, "next_token": token}

    async def controller_get_volume(self, request: Message) -> Message:
        found = await volumes.must_find(self._pools, requests.required(request, "volume_id"))
        return {"volume": self._volume(found), "status": _status(found)}

    async def controller_get_volume_health(self, request: Message) -> Message:
        found = await volumes.must_find(self._pools, requests.required(request, "volume_id"))
        return {"volume_health": volumes.health(found, found.state.abnormal)}

    async def controller_list_volume_health(self, request: Message) -> Message:
        found = await volumes.every(self._pools, snapshots=False, only_ready=False)
        names, token = requests.page(request, list(found))
        return {
            "entries": [volumes.health(found[name], found[name].state.abnormal) for name in names],
            "next_token": token,
        }

    async def controller_expand_volume(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        if not request.get("capacity_range"):
            raise requests.invalid("capacity_range is missing")
        size = requests.capacity_range(request)

        async def expand() -> Message:
            known = await volumes.must_find(self._pools, volume_id)
            extent = (await known.pool.state()).extent_bytes
            wanted = size.rounded(known.state.size_bytes, extent)
            if wanted > known.state.size_bytes:
                known = Known(known.pool, await known.pool.expand(known.state.name, wanted))
            elif size.limit_bytes and known.state.size_bytes > size.limit_bytes:
                raise RpcError(Code.OUT_OF_RANGE, f"it has {known.state.size_bytes} bytes, and volumes do not shrink")
            block = "block" in request.get("volume_capability", {})
            return {"capacity_bytes": known.state.size_bytes, "node_expansion_required": not block}

        return await self._operations.run(f"volume {volume_id.rpartition('/')[2]}", expand)

    async def get_capacity(self, request: Message) -> Message:
        parameters = self._parameters(request)
        segments = request.get("accessible_topology", {}).get("segments", {})
        if segments.get(pool_names.TOPOLOGY, self._node) != self._node:
            return {"available_capacity": 0}
        name = parameters.get(POOL, "")
        chosen = [pool for pool in self._pools.list() if not name or pool.name == name]
        found = await volumes.states(chosen)
        rooms = [0 if state.error else state.unpromised_bytes for state in found.values()] or [0]
        return {
            "available_capacity": sum(rooms),
            "maximum_volume_size": {"value": max(rooms)},
            "minimum_volume_size": {"value": max((state.extent_bytes for state in found.values()), default=0)},
        }

    # Snapshots.

    async def create_snapshot(self, request: Message) -> Message:
        wanted = requests.required(request, "name")
        source_id = requests.required(request, "source_volume_id")
        requests.refuse_unknown_parameters(_own(request.get("parameters", {})), ())
        name = volumes.snapshot_name(wanted)

        async def make() -> Message:
            for one in (await volumes.every(self._pools, snapshots=True)).values():
                if one.state.name == name and one.source_id != source_id:
                    raise RpcError(Code.ALREADY_EXISTS, f"there is a snapshot {wanted[:200]} of another volume")
            source = await volumes.must_find(self._pools, source_id)
            if not source.pool.snapshots:
                raise RpcError(Code.FAILED_PRECONDITION, f"pool {source.pool.name} makes no snapshots")
            made = Known(source.pool, await source.pool.snapshot(name, source.state.name))
            return {"snapshot": self._snapshot(made)}

        return await self._operations.run(f"snapshot {name}", make)

    async def delete_snapshot(self, request: Message) -> Message:
        await self._remove(requests.required(request, "snapshot_id"), snapshot=True)
        return {}

    async def list_snapshots(self, request: Message) -> Message:
        found = await volumes.every(self._pools, snapshots=True)
        only, source = request.get("snapshot_id", ""), request.get("source_volume_id", "")
        chosen = [
            name
            for name, one in found.items()
            if (not only or name == only) and (not source or one.source_id == source)
        ]
        names, token = requests.page(request, chosen)
        return {"entries": [{"snapshot": self._snapshot(found[name])} for name in names], "next_token": token}

    async def get_snapshot(self, request: Message) -> Message:
        found = await volumes.must_find(self._pools, requests.required(request, "snapshot_id"), snapshot=True)
        return {"snapshot": self._snapshot(found)}

    # What they have in common.

    async def _remove(self, volume_id: str, *, snapshot: bool) -> None:
        located = volumes.locate(self._pools, volume_id)
        if located is None:
            return  # it is gone, or has never been: that is what was asked for
        pool, name = located

        async def remove() -> None:
            state = (await pool.state()).volumes.get(name)
            if state is not None and state.is_snapshot == snapshot:
                await pool.remove(name, method=ZeroOut())

        # Under the same key as its making, so that a volume does not come back after it was deleted.
        await self._operations.run(f"{'snapshot' if snapshot else 'volume'} {name}", remove)

    async def _made(self, pool: Pool, name: str, size: requests.Range, source: Known | None) -> VolumeState:
        state = await pool.state()
        if source is None:
            return await pool.create(name, size.rounded(DEFAULT_BYTES, state.extent_bytes))
        if not pool.snapshots:
            raise RpcError(Code.FAILED_PRECONDITION, f"pool {pool.name} makes no clones")
        least = source.state.size_bytes
        if 0 < size.required_bytes < least or 0 < size.limit_bytes < least:
            raise RpcError(Code.OUT_OF_RANGE, f"the source has {least} bytes, so the volume must have as many")
        return await pool.create(name, size.rounded(least, state.extent_bytes), source=source.state.name)

    async def _source(self, request: Message) -> Known | None:
        found = request.get("volume_content_source")
        if found is None:
            return None
        if "snapshot" in found:
            snapshot_id = requests.required(found["snapshot"], "snapshot_id")
            return await volumes.must_find(self._pools, snapshot_id, snapshot=True)
        if "volume" in found:
            return await volumes.must_find(self._pools, requests.required(found["volume"], "volume_id"))
        raise requests.invalid("volume_content_source is neither a snapshot nor a volume")

    async def _place(self, name: str, pool_name: str, source: Known | None) -> tuple[Pool, Known | None]:
        """The pool for a volume, and the volume if it is there."""
        if source is not None:
            chosen = [source.pool]
            if pool_name and pool_name != source.pool.name:
                raise requests.invalid(f"the source is in pool {source.pool.name}, and cannot come into {pool_name}")
        else:
            chosen = [pool for pool in self._pools.list() if not pool_name or pool.name == pool_name]
        if not chosen:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"this node has no pool {pool_name}".rstrip())
        states = await volumes.states(self._pools.list())
        for pool in self._pools.list():
            volume = states[pool.name].volumes.get(name) if pool.name in states else None
            if volume is None:
                continue
            if volume.going:
                raise RpcError(Code.ABORTED, f"{name} is being removed")
            if pool not in chosen:
                raise RpcError(Code.ALREADY_EXISTS, f"{name} is in pool {pool.name}")
            return pool, Known(pool, volume)
        answering = [pool for pool in chosen if pool.name in states]
        if not answering:
            raise RpcError(Code.UNAVAILABLE, f"pool {chosen[0].name} does not answer")
        return max(answering, key=lambda pool: states[pool.name].unpromised_bytes), None

    def _parameters(self, request: Message) -> dict[str, str]:
        parameters = _own(request.get("parameters", {}))
        requests.refuse_unknown_parameters(parameters, PARAMETERS)
        requests.refuse_unknown_fs_type(parameters.get(FS_TYPE, ""))
        requests.mkfs_options(parameters.get(MKFS_OPTIONS, ""))
        return parameters

    def _refuse_elsewhere(self, request: Message) -> None:
        wanted = request.get("accessibility_requirements", {}).get("requisite", [])
        nodes = [one.get("segments", {}).get(pool_names.TOPOLOGY, self._node) for one in wanted]
        if nodes and self._node not in nodes:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"volumes made here are on node {self._node}")

    def _volume(
        self, known: Known, parameters: Mapping[str, str] | None = None, source: Message | None = None
    ) -> Message:
        context = {key: value for key, value in (parameters or {}).items() if key != POOL}
        return {
            "volume_id": known.id,
            "capacity_bytes": known.state.size_bytes,
            "volume_context": context,
            "accessible_topology": [self._topology()],
            **({"content_source": source} if source else {}),
        }

    def _snapshot(self, known: Known) -> Message:
        return {
            "snapshot_id": known.id,
            "source_volume_id": known.source_id,
            "size_bytes": known.state.size_bytes,
            "creation_time": _timestamp(known.state.created),
            "ready_to_use": known.state.ready,
        }

    def _topology(self) -> Message:
        return {"segments": {pool_names.TOPOLOGY: self._node}}


def _own(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if not name.startswith(SIDECAR_PREFIX)}


def _status(known: Known) -> Message:
    return {"volume_condition": volumes.condition(known.state.abnormal)}


def _timestamp(text: str) -> Message:
    if not text:
        return {}
    moment = datetime.fromisoformat(text)
    return {"seconds": int(moment.timestamp()), "nanos": moment.microsecond * 1000}
