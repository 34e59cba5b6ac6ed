"""`localpv agent --clean DISK`: carry out one order to clean, and end. Jobs that clean run this on the disk's node."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from localpv.agent.clean import orders
from localpv.agent.udev.headers import Headers
from localpv.api.kinds.localdisk import LocalDisk
from localpv.client import client as clients
from localpv.disk.records.api import ApiRecords
from localpv.disk.records.protocol import Records
from localpv.observe.recorder import ApiRecorder
from localpv.programs import configuring, node_parts, stopping
from localpv.programs.configuring import Configured
from localpv.programs.node_parts import Settings
from localpv.programs.observing import Observed
from localpv.runtime.clock import SystemClock
from localpv.runtime.group import Group

log = logging.getLogger(__name__)


async def run(settings: Settings, disk: str) -> None:
    """Clean until the order is done or taken back; a failure is tried again by the same rules as in an agent."""
    clock = SystemClock()
    async with clients.connect(settings.connection, component="cleaner") as client:
        own = configuring.from_nothing if settings.local_storage else configuring.from_folder(settings.config)
        read = configuring.with_local_storages(own, Headers(settings.rules).classes)
        configured = Configured(read, clock=clock)
        await configured.load()
        records = ApiRecords(client, node=settings.node, clock=clock)
        recorder = ApiRecorder(client, component="localpv-agent", clock=clock)
        parts = node_parts.cleaner(
            node=settings.node,
            records=records,
            configured=configured,
            state=settings.state,
            clock=clock,
            recorder=recorder,
            observed=Observed("agent"),
            only=disk,
        )
        group = Group(clock=clock)
        group.add("events", recorder.run)
        group.add("configuration", configured.run)
        group.add("cleaning", parts.run)
        stop = stopping.stop_signal()
        done = asyncio.create_task(_over(records, disk))
        # Also when it fails: a cleaner that cannot tell whether it is done ends, and its Job starts it again.
        done.add_done_callback(lambda _: stop.set())
        try:
            await stopping.run_until(stop, group)
        finally:
            done.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await done


async def _over(records: Records, name: str) -> None:
    """Wait until nothing is left to do for the disk."""
    over, left = asyncio.Event(), False

    def changed(old: LocalDisk | None, new: LocalDisk | None) -> None:
        nonlocal left
        disk = new or old
        if disk is not None and disk.metadata.name == name:
            left = new is not None and orders.open_order(new) is not None
            if not left:
                over.set()

    def synced() -> None:
        if not left:
            over.set()

    async with asyncio.TaskGroup() as group:
        following = group.create_task(records.follow(changed, synced=synced))
        await over.wait()
        following.cancel()
    log.info("nothing is left to clean disk=%s", name)
