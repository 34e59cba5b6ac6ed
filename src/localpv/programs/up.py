"""`localpv up`: everything, on this machine, in one process: the engine, discovery, publishing and cleaning."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from localpv.agent.udev.headers import Headers
from localpv.api import crds
from localpv.client import config as connections
from localpv.client.client import Client
from localpv.disk.records.api import ApiRecords
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.scheduler.consumers import Consumers
from localpv.programs import (
    binding,
    configuring,
    demo,
    in_process_transport,
    live,
    manifests,
    node_parts,
    own_machine,
    provisioner,
    provisioning,
    running,
    scheduling,
    serving,
    stopping,
    workloads,
)
from localpv.programs.configuring import Configured
from localpv.programs.manifests import Manifest
from localpv.programs.observing import Observed
from localpv.programs.own_machine import Machine
from localpv.runtime.clock import SystemClock
from localpv.runtime.group import Group
from localpv.volume.informers import VolumeInformers

log = logging.getLogger(__name__)

CLASSES = "storageClassMap"
"""The file in the configuration folder that says where disks are found; without it none are looked for."""

MOST_NAMED = 5
"""Pods that are named when they run on after the end."""


async def run(settings: Settings, *, config: Path | None, with_demo: bool, on_terminal: bool) -> None:
    """Serve until SIGTERM or Ctrl-C, with a live view on a terminal and log lines elsewhere."""
    stop = stopping.stop_signal()
    wanted = manifests.read(config) if config is not None else []
    folder = config
    if with_demo:
        shown, folder = demo.prepare(settings.data, config)
        wanted = [*shown, *wanted]
    observed = Observed("up")
    async with serving.engine(settings, observed) as server:
        connection, requests = connections.load(server.kubeconfig), observed.requests(server.url)
        clock = SystemClock()
        async with in_process_transport.connect(
            server, connection, component="up", clock=clock, observer=requests
        ) as client:
            own = [Manifest(crds.load(name), "localpv itself") for name in crds.NAMES]
            await manifests.apply([*own, *wanted], client, server.kinds)
            group = Group(clock=SystemClock())
            informers = binding.add_informers(group, client=client, clock=clock)
            scheduler = scheduling.add_to(group, client=client, informers=informers, clock=clock)
            binding.add_to(group, client=client, informers=informers, clock=clock, consumers=Consumers(scheduler))
            workloads.add_to(group, client=client, informers=informers, clock=clock)
            access = await running.add_to(
                group,
                client=client,
                informers=informers,
                clock=clock,
                node=settings.node_name,
                data=settings.data,
                observed=observed,
            )
            if access is not None:
                server.look_into_pods_with(access)
            kubelet = KubeletPaths.of(settings.data).run if access is not None else None
            await _add_the_circle(group, informers, settings, folder, observed, kubelet)
            if with_demo and access is not None:
                group.add("demo", lambda: demo.stay(client))
            hints = demo.TRY_NEXT if with_demo and access is not None else demo.TRY_WITHOUT_PODS
            await _serve(group, client, server, stop, hints=hints if on_terminal else ())
    if access is not None:
        _say_what_runs_on(access.running(), settings.data)


def _say_what_runs_on(pods: Sequence[str], data: Path) -> None:
    if pods:
        shown = ", ".join(pods[:MOST_NAMED]) + (", ..." if len(pods) > MOST_NAMED else "")
        count = "1 pod runs" if len(pods) == 1 else f"{len(pods)} pods run"
        print(
            f"{count} on, with volumes mounted: {shown}\nlocalpv up goes on with them;"
            f" to end them: localpv down --data {data}",
            file=sys.stderr,
            flush=True,
        )


async def _add_the_circle(
    group: Group,
    informers: VolumeInformers,
    settings: Settings,
    folder: Path | None,
    observed: Observed,
    kubelet: Path | None,
) -> None:
    """Discovery, publishing and cleaning: from the start where classes are configured, otherwise with the first
    LocalStorage."""
    clock = SystemClock()
    own: configuring.Read = configuring.from_nothing
    has_classes = folder is not None and (folder / CLASSES).exists()
    if folder is not None and has_classes:
        own = configuring.from_folder(folder, others=manifests.SUFFIXES)
    machine = Machine(node=settings.node_name, rules=node_parts.RULES_FOLDER, state=settings.data)
    read = configuring.with_local_storages(own, Headers(machine.rules, engine=machine.engine).classes)
    configured = Configured(read, clock=clock)
    await configured.load()
    observed.configuration(configured)
    provisioning.add_classes(group, client=informers.client, configured=configured, clock=clock)
    provisioning.add_to(group, informers=informers, configured=configured, clock=clock, observed=observed)

    def add_to(parts: Group) -> None:
        parts.add("configuration", configured.run)
        parts.add("rules files", lambda: configuring.follow_folder(machine.rules, configured))
        provisioner.add_to(
            parts,
            node=settings.node_name,
            informers=informers,
            records=ApiRecords(informers.client, node=settings.node_name, clock=clock),
            configured=configured,
            state=settings.data / "agent",
            clock=clock,
            observed=observed,
            kubelet=kubelet,
            engine=machine.engine,
        )

    async def serve_local_storages() -> None:
        await own_machine.first(informers.client, state=machine.state, clock=clock)
        parts = Group(clock=clock)
        if not has_classes:
            add_to(parts)
        parts.add(
            "operator and discoverer",
            lambda: own_machine.serve(
                informers.client,
                machine,
                clock=clock,
                observed=observed,
                is_configured=configured.has_of_its_own,
            ),
        )
        await parts.run()

    if has_classes:
        add_to(group)
    group.add("local storages", serve_local_storages)


async def _serve(group: Group, client: Client, server: ApiServer, stop: asyncio.Event, *, hints: Sequence[str]) -> None:
    """Serve with a live view if there is anything to hint at: without hints nobody looks."""
    view: asyncio.Task[None] | None = None

    def ready() -> None:
        nonlocal view
        serving.say_ready(server)
        if hints:
            view = asyncio.create_task(live.show(client, server, hints=hints))

    try:
        await stopping.run_until(stop, group, ready)
    finally:
        if view is not None:
            view.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await view
