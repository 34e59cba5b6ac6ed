"""Shows volumes to pods: the calls of a kubelet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from localpv.agent.csi import requests, volumes
from localpv.agent.csi.controller import FS_TYPE, MKFS_OPTIONS
from localpv.agent.csi.operations import Operations
from localpv.agent.csi.staging import Staging
from localpv.agent.csi.volumes import Known, Pools
from localpv.csi.codec import Message
from localpv.csi.server import Handler
from localpv.csi.status import Code, RpcError
from localpv.host.mounts import Mount
from localpv.host.workers import Workers
from localpv.volume import pool_names

CAPABILITIES: Final = (
    "STAGE_UNSTAGE_VOLUME",
    "GET_VOLUME_STATS",
    "EXPAND_VOLUME",
    "VOLUME_CONDITION",
    "SINGLE_NODE_MULTI_WRITER",
    "GET_VOLUME_HEALTH",
)

LOOK_SECONDS: Final = 10.0


class Node:
    def __init__(self, *, node: str, pools: Pools, staging: Staging, operations: Operations, workers: Workers) -> None:
        self._node, self._pools, self._staging = node, pools, staging
        self._operations, self._workers = operations, workers

    def services(self) -> Mapping[str, Handler]:
        handlers = {
            "NodeStageVolume": self.node_stage_volume,
            "NodeUnstageVolume": self.node_unstage_volume,
            "NodePublishVolume": self.node_publish_volume,
            "NodeUnpublishVolume": self.node_unpublish_volume,
            "NodeGetVolumeStats": self.node_get_volume_stats,
            "NodeGetVolumeHealth": self.node_get_volume_health,
            "NodeExpandVolume": self.node_expand_volume,
            "NodeGetCapabilities": self.node_get_capabilities,
            "NodeGetInfo": self.node_get_info,
        }
        return {f"/csi.v1.Node/{name}": handler for name, handler in handlers.items()}

    async def node_get_capabilities(self, request: Message) -> Message:
        return {"capabilities": [{"rpc": {"type": name}} for name in CAPABILITIES]}

    async def node_get_info(self, request: Message) -> Message:
        return {"node_id": self._node, "accessible_topology": {"segments": {pool_names.TOPOLOGY: self._node}}}

    async def node_stage_volume(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        at = requests.path(request, "staging_target_path")
        capability = requests.capability(request)
        context = request.get("volume_context", {})
        fs_type = context.get(FS_TYPE, "")
        requests.refuse_unknown_fs_type(fs_type)
        options = requests.mkfs_options(context.get(MKFS_OPTIONS, ""))

        async def stage() -> Message:
            known = await self._ready(volume_id)
            await self._staging.stage(known, at, capability, fs_type=fs_type, mkfs_options=options)
            return {}

        return await self._operations.run(f"node {volume_id}", stage)

    async def node_unstage_volume(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        at = requests.path(request, "staging_target_path")

        async def unstage() -> Message:
            await self._staging.unstage(await volumes.find(self._pools, volume_id), volume_id, at)
            return {}

        return await self._operations.run(f"node {volume_id}", unstage)

    async def node_publish_volume(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        target = requests.path(request, "target_path")
        capability = requests.capability(request)
        if not request.get("staging_target_path"):
            raise RpcError(Code.FAILED_PRECONDITION, "staging_target_path is missing: volumes are staged first")
        staged = requests.path(request, "staging_target_path")
        read_only = bool(request.get("readonly")) or capability.mode == "SINGLE_NODE_READER_ONLY"

        async def publish() -> Message:
            known = await self._ready(volume_id)
            await self._staging.publish(known, staged, target, capability, read_only=read_only)
            return {}

        return await self._operations.run(f"node {volume_id}", publish)

    async def node_unpublish_volume(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        target = requests.path(request, "target_path")

        async def unpublish() -> Message:
            await self._staging.unpublish(await volumes.find(self._pools, volume_id), volume_id, target)
            return {}

        return await self._operations.run(f"node {volume_id}", unpublish)

    async def node_get_volume_stats(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        requests.required(request, "volume_path")
        known = await volumes.must_find(self._pools, volume_id)
        at = _volume_path(request)
        mount = await self._staging.shown(known, at)
        if mount is None:
            raise RpcError(Code.NOT_FOUND, f"{volume_id} is not at {at}")
        abnormal = known.state.abnormal or went_read_only(mount)
        if mount.device_node:
            return {
                "usage": [{"unit": "BYTES", "total": known.state.size_bytes}],
                "volume_condition": volumes.condition(abnormal),
            }
        usage, unreadable = await self._usage(at)
        return {"usage": usage, "volume_condition": volumes.condition(abnormal or unreadable)}

    async def node_get_volume_health(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        known = await volumes.must_find(self._pools, volume_id)
        abnormal = known.state.abnormal
        if not abnormal and request.get("volume_publish_path"):
            mount = await self._staging.shown(known, requests.path(request, "volume_publish_path"))
            abnormal = went_read_only(mount) if mount is not None else ""
        return {"volume_health": volumes.health(known, abnormal)}

    async def node_expand_volume(self, request: Message) -> Message:
        volume_id = requests.required(request, "volume_id")
        requests.required(request, "volume_path")
        size = requests.capacity_range(request)

        async def expand() -> Message:
            known = await volumes.must_find(self._pools, volume_id)
            at = _volume_path(request)
            if size.required_bytes > known.state.size_bytes:
                raise RpcError(
                    Code.OUT_OF_RANGE,
                    f"{volume_id} has {known.state.size_bytes} bytes: it is made larger in its pool first",
                )
            await self._staging.expand(known, at)
            return {"capacity_bytes": known.state.size_bytes}

        return await self._operations.run(f"node {volume_id}", expand)

    async def _ready(self, volume_id: str) -> Known:
        known = await volumes.must_find(self._pools, volume_id)
        if not known.state.ready:
            raise RpcError(Code.ABORTED, f"{volume_id} is not finished yet")
        return known

    async def _usage(self, at: Path) -> tuple[list[Message], str]:
        """How full a file system is, and what keeps it from being read, if anything does."""

        def look() -> tuple[os.statvfs_result | None, str]:
            try:
                found = os.statvfs(at)
                with os.scandir(at) as entries:
                    next(entries, None)  # one that the kernel has shut down still tells how full it was
            except OSError as error:
                return None, f"its file system cannot be read: {error.strerror}"
            return found, ""

        found, unreadable = await self._workers.call(look, key=str(at), timeout=LOOK_SECONDS)
        if found is None:
            return [], unreadable
        block = found.f_frsize
        return [
            {
                "unit": "BYTES",
                "total": found.f_blocks * block,
                "available": found.f_bavail * block,
                "used": (found.f_blocks - found.f_bfree) * block,
            },
            {
                "unit": "INODES",
                "total": found.f_files,
                "available": found.f_favail,
                "used": found.f_files - found.f_ffree,
            },
        ], ""


def went_read_only(mount: Mount) -> str:
    """What is to be said of a mount that may be written to while the kernel has stopped writing to its disk."""
    stopped = "ro" in mount.super_options and "ro" not in mount.options
    return "the kernel has made its file system read-only after an error" if stopped else ""


def _volume_path(request: Message) -> Path:
    """Where a volume is said to be; a path that nothing is ever mounted at is one where it is not."""
    try:
        return requests.path(request, "volume_path")
    except RpcError as reason:
        raise RpcError(Code.NOT_FOUND, f"no volume is there: {reason.message}") from None
