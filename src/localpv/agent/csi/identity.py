"""Who this plugin is and what it can do."""

from __future__ import annotations

from collections.abc import Mapping

import localpv
from localpv.csi.codec import Message
from localpv.csi.server import Handler
from localpv.volume import pool_names


class Identity:
    def services(self) -> Mapping[str, Handler]:
        return {
            "/csi.v1.Identity/GetPluginInfo": self.get_plugin_info,
            "/csi.v1.Identity/GetPluginCapabilities": self.get_plugin_capabilities,
            "/csi.v1.Identity/Probe": self.probe,
        }

    async def get_plugin_info(self, request: Message) -> Message:
        return {"name": pool_names.DRIVER, "vendor_version": localpv.__version__}

    async def get_plugin_capabilities(self, request: Message) -> Message:
        services = ("CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS")
        return {
            "capabilities": [
                *({"service": {"type": service}} for service in services),
                {"volume_expansion": {"type": "ONLINE"}},
            ]
        }

    async def probe(self, request: Message) -> Message:
        return {"ready": {"value": True}}
