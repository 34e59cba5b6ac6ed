"""`localpv agent`: discovery and cleaning on one node. Has no access to PersistentVolumes."""

from __future__ import annotations

from localpv.client import client as clients
from localpv.disk.records.api import ApiRecords
from localpv.programs import configuring, memory, node_parts, stopping
from localpv.programs.configuring import Configured
from localpv.programs.node_parts import Settings
from localpv.programs.observing import Observed
from localpv.runtime.clock import SystemClock
from localpv.runtime.group import Group


async def run(settings: Settings) -> None:
    """Serve this node until SIGTERM or Ctrl-C."""
    clock = SystemClock()
    observed = Observed("agent")
    requests = observed.requests(settings.connection.url)
    memory.use_small_buffers()
    async with clients.connect(
        settings.connection, component="agent", observer=requests, connections=memory.CONNECTIONS
    ) as client:
        configured = Configured(configuring.from_folder(settings.config), clock=clock)
        await configured.load()
        group = Group(clock=clock)
        group.add("configuration", configured.run)
        node_parts.add_to(
            group,
            node=settings.node,
            client=client,
            records=ApiRecords(client, node=settings.node, clock=clock),
            configured=configured,
            state=settings.state,
            clock=clock,
            observed=observed,
        )
        line = f"ready agent of node {settings.node}"
        await stopping.until_stopped(group, line, probes=settings.probes, observed=observed)
