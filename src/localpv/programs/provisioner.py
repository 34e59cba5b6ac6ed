"""`localpv provisioner`: agent and manager of one node in one process, a drop-in for the classic DaemonSet.

It takes the same ConfigMap, the same environment and makes volumes with the same names. Where the kind LocalDisk is
not installed, or not allowed as with the classic roles, its records live in a folder on the node.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from localpv.client import client as clients
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.config import classic, local_storage
from localpv.disk.records.api import ApiRecords
from localpv.disk.records.folder import FolderRecords
from localpv.disk.records.protocol import Ours, Records, every_record
from localpv.errors import Forbidden, NotFound
from localpv.manager.manager import Manager, ManagerScope
from localpv.observe.recorder import ApiRecorder
from localpv.programs import configuring, memory, node_parts, stopping
from localpv.programs.configuring import Configured
from localpv.programs.node_lock import NodeLock
from localpv.programs.node_parts import Settings
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock, SystemClock
from localpv.runtime.group import Group

log = logging.getLogger(__name__)


async def run(settings: Settings) -> None:
    """Serve this node until SIGTERM or Ctrl-C."""
    clock = SystemClock()
    observed = Observed("provisioner")
    requests = observed.requests(settings.connection.url)
    memory.use_small_buffers()
    async with clients.connect(
        settings.connection, component="provisioner", observer=requests, connections=memory.CONNECTIONS_OF_BOTH
    ) as client:
        read = configuring.from_classic_places(
            client,
            settings.config,
            name=settings.config_map,
            namespace=settings.namespace or settings.connection.namespace,
        )
        configured = Configured(read, clock=clock, defaults=classic.with_defaults)
        await configured.load()
        observed.configuration(configured)
        if configured.current.cleans_in_jobs:
            log.warning("useJobForCleaning: a provisioner cleans by itself; Jobs need localpv manager and agent")
        records = await _records(client, settings, clock)
        group = Group(clock=clock)
        group.add("configuration", configured.run)
        informers = InformerFactory(client, clock=clock)
        group.add("informers", informers.run)
        parts, started = Group(clock=clock), asyncio.Event()
        add_to(
            parts,
            node=settings.node,
            informers=informers,
            records=records,
            configured=configured,
            state=settings.state,
            clock=clock,
            observed=observed,
            notices=_notices(records, settings.state),
            ours=lambda disk: not local_storage.is_linked(disk.spec.path),
        )
        # Agents of LocalStorages stand by: two who judge the disks of a node could offer one twice.
        turn = NodeLock(settings.state, first=True, clock=clock)
        observed.working(lambda: turn.working, idle_is_ready=False)
        group.add("node", lambda: turn.run(lambda: parts.run(on_ready=started.set)), ready=started.wait)
        try:
            line = f"ready provisioner of node {settings.node}"
            await stopping.until_stopped(group, line, probes=settings.probes, observed=observed)
        finally:
            if isinstance(records, FolderRecords):
                records.close()


def add_to(
    group: Group,
    *,
    node: str,
    informers: InformerFactory,
    records: Records,
    configured: Configured,
    state: Path,
    clock: Clock,
    observed: Observed,
    notices: Sequence[tuple[str, str]] = (),
    ours: Ours = every_record,
    kubelet: Path | None = None,
    engine: str = "",
) -> None:
    """Add both sides of one node to a group: the manager first, so that nobody misses what discovery finds."""

    async def has_looked(_: str) -> bool:
        return discovery.synced

    client = informers.client
    manager = Manager(
        informers,
        records=records,
        configuration=configured.current,
        clock=clock,
        scope=ManagerScope(node=node, notices=notices, has_looked=has_looked),
        recorder=observed.publications(ApiRecorder(client, component="localpv-provisioner", clock=clock)),
        observe=observed.queues,
    )
    observed.manager(lambda: manager)
    configured.on_change(manager.configure)
    group.add("manager", manager.run, ready=manager.ready)
    discovery = node_parts.add_to(
        group,
        node=node,
        client=client,
        records=records,
        configured=configured,
        state=state,
        clock=clock,
        observed=observed,
        ours=ours,
        kubelet=kubelet,
        engine=engine,
    )


def _notices(records: Records, state: Path) -> list[tuple[str, str]]:
    """What the classic DaemonSet, which gives its pods no folder of the host to keep anything in, costs."""
    in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    if not isinstance(records, FolderRecords) or not in_pod or os.stat(state).st_dev != os.stat("/").st_dev:
        return []
    message = (
        f"{state} goes with the pod, and with it what is known of disks that are not clean yet: a volume that somebody"
        " deletes by hand before its disk was cleaned comes back with its data if the pod is replaced. Mount a folder"
        f" of the node there (hostPath), or install LocalDisks."
    )
    log.warning("records are not kept reason=%s", message)
    return [("RecordsNotKept", message)]


async def _records(client: Client, settings: Settings, clock: Clock) -> Records:
    records = ApiRecords(client, node=settings.node, clock=clock)
    try:
        await records.list()
    except (NotFound, Forbidden) as error:
        log.warning("records are kept in a folder folder=%s why=%s", settings.state / "records", error)
        folder = FolderRecords(settings.state / "records", clock=clock)
        folder.open()
        return folder
    return records
