"""`localpv agent`: discovery and cleaning on one node. Has no access to PersistentVolumes.

It serves the classes of its ConfigMap and those of LocalStorages whose rules are on the node; `--local-storage` leaves
the ConfigMap out. Of several agents on a node one works (`node_lock`).
"""

from __future__ import annotations

from localpv.agent.udev.headers import Headers
from localpv.api.kinds.localdisk import LocalDisk
from localpv.client import client as clients
from localpv.client.client import Client
from localpv.config import local_storage
from localpv.disk.records.api import ApiRecords
from localpv.disk.records.protocol import Ours
from localpv.programs import configuring, memory, node_parts, stopping
from localpv.programs.configuring import Configured
from localpv.programs.node_lock import NodeLock
from localpv.programs.node_parts import Settings
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock, SystemClock
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
        own = configuring.from_nothing if settings.local_storage else configuring.from_folder(settings.config)
        headers = Headers(settings.rules)
        read = configuring.with_local_storages(own, headers.classes)
        configured = Configured(read, clock=clock)
        await configured.load()
        observed.configuration(configured)
        turn = NodeLock(settings.state, first=not settings.local_storage, clock=clock)
        observed.working(lambda: turn.working, idle_is_ready=settings.local_storage)
        ours = of_local_storage if settings.local_storage else of_main_agent(headers)
        group = Group(clock=clock)
        group.add("configuration", configured.run)
        group.add("rules files", lambda: configuring.follow_folder(settings.rules, configured))
        group.add("node", lambda: turn.run(lambda: _work(client, settings, configured, ours, clock, observed)))
        line = f"ready agent of node {settings.node}"
        await stopping.until_stopped(group, line, probes=settings.probes, observed=observed)


def of_local_storage(disk: LocalDisk) -> bool:
    """Whether the class of a disk is one of a LocalStorage, or was. Without a ConfigMap nobody can tell whether any
    other class is gone: its agent may only be starting anew."""
    return local_storage.is_linked(disk.spec.path)


def of_main_agent(headers: Headers) -> Ours:
    """All records, but where the folder of rules is not there, or not for this agent, none of LocalStorages: it cannot
    know their classes."""
    return lambda disk: headers.there or not local_storage.is_linked(disk.spec.path)


async def _work(
    client: Client, settings: Settings, configured: Configured, ours: Ours, clock: Clock, observed: Observed
) -> None:
    """Be the one agent that works on the node."""
    parts = Group(clock=clock)
    node_parts.add_to(
        parts,
        node=settings.node,
        client=client,
        records=ApiRecords(client, node=settings.node, clock=clock),
        configured=configured,
        state=settings.state,
        clock=clock,
        observed=observed,
        ours=ours,
        kubelet=settings.kubelet,
    )
    try:
        await parts.run()
    finally:
        configured.forget_listeners()
        observed.stands_by()
        parts.must_have_stopped()
