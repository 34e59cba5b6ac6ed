"""The sockets of the driver: its own, and the one by which a kubelet finds it.

A kubelet looks into its folder of registrations, asks the socket there which plugin it is and where, calls that, and
says whether it has taken it. No sidecar is needed for that.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from localpv import errors
from localpv.agent.csi import staging
from localpv.agent.csi.controller import Controller
from localpv.agent.csi.identity import Identity
from localpv.agent.csi.node import Node
from localpv.agent.csi.operations import Operations
from localpv.agent.csi.publications import Publications
from localpv.agent.csi.staging import Staging
from localpv.agent.csi.volumes import Pools
from localpv.csi.codec import Message
from localpv.csi.server import serve
from localpv.host.own_folders import DiskFolders
from localpv.host.workers import Workers
from localpv.volume import pool_names

log = logging.getLogger(__name__)

VERSION: Final = "1.0.0"
"""Of the interface, as kubelets compare it: what begins with 1 is what they know."""

SOCKET: Final = "csi.sock"

AGAIN_SECONDS: Final = 5.0


class Plugin:
    """Serves the pools of this node to a kubelet whose folder is given."""

    def __init__(self, *, node: str, pools: Pools, kubelet: Path, state: Path, workers: Workers) -> None:
        self._kubelet = kubelet
        self._operations = Operations()
        publications = Publications(state / "csi")
        acts = Staging(host=staging.on_this_machine(workers), publications=publications)
        self._services = {
            **Identity().services(),
            **Controller(node=node, pools=pools, operations=self._operations).services(),
            **Node(node=node, pools=pools, staging=acts, operations=self._operations, workers=workers).services(),
        }
        self.ready = asyncio.Event()
        """Set when both sockets are there."""

    @property
    def socket(self) -> Path:
        return self._kubelet / "plugins" / pool_names.DRIVER / SOCKET

    async def run(self) -> None:
        """Serve until cancelled. Without a place for the sockets the rest of the agent goes on, and this is tried
        again: another agent may be about to leave, or the kubelet's folder about to come."""
        while True:
            try:
                await self._serve()
            except (errors.StartError, OSError) as error:
                log.error("CSI is not served error=%s", error)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _serve(self) -> None:
        registration = self._kubelet / "plugins_registry" / f"{pool_names.DRIVER}-reg.sock"
        for folder in (self.socket.parent, registration.parent):
            DiskFolders().make(folder)
        serving = await serve(self.socket, self._services)
        try:
            registering = await serve(
                registration,
                {
                    "/pluginregistration.Registration/GetInfo": self._get_info,
                    "/pluginregistration.Registration/NotifyRegistrationStatus": self._notify,
                },
            )
            self.ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                # First: with it the kubelet forgets the driver, and calls no more.
                await registering.close()
        finally:
            self.ready.clear()
            await serving.close()
            await self._operations.stop()

    async def _get_info(self, request: Message) -> Message:
        return {
            "type": "CSIPlugin",
            "name": pool_names.DRIVER,
            "endpoint": str(self.socket),
            "supported_versions": [VERSION],
        }

    async def _notify(self, request: Message) -> Message:
        if request.get("plugin_registered"):
            log.info("the kubelet has taken the driver name=%s", pool_names.DRIVER)
        else:
            log.error("the kubelet does not take the driver name=%s reason=%s", pool_names.DRIVER, request.get("error"))
        return {}
