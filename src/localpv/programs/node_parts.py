"""The parts that run on a node: discovery and cleaning over the real kernel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localpv.agent.clean.cleaner import Cleaner
from localpv.agent.clean.host_executor import HostExecutor
from localpv.agent.clean.reconciler import CleaningScope
from localpv.agent.discover.discovery import Discovery, HostView
from localpv.agent.pools.pools import Pools
from localpv.client.client import Client
from localpv.client.config import Connection
from localpv.disk.records.protocol import Ours, Records, every_record
from localpv.host.devices import KernelDevices, KernelOpeners
from localpv.host.folders import KernelFolders
from localpv.host.marks import DiskMarks
from localpv.host.mounts import KernelMounts
from localpv.host.trees import KernelTrees
from localpv.host.uevents import KernelUevents
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers
from localpv.observe.recorder import ApiRecorder, Recorder
from localpv.programs import pool_parts
from localpv.programs.configuring import Configured
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group

RULES_FOLDER = Path("/etc/udev/rules.d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a program that serves one node is told."""

    connection: Connection
    probes: str = ""
    """HOST:PORT where /livez, /readyz and /metrics are answered; empty for nowhere."""

    node: str
    config: Path
    """Folder with the keys of the ConfigMap as files."""

    config_map: str = ""
    """The ConfigMap that a drop-in reads where nothing is mounted; empty for the usual names."""

    namespace: str = ""
    """Its namespace; empty for that of the connection."""

    state: Path
    """Folder for locks of the node and of devices that are being cleaned, and for records where there is no kind for
    them."""

    rules: Path = RULES_FOLDER
    """Folder of udev's rules, where the classes of LocalStorages are read."""

    kubelet: Path | None = None
    """The kubelet's folder, where it is told of drivers for its volumes; None to tell none."""

    local_storage: bool = False
    """Whether the agent has no ConfigMap and serves LocalStorages alone."""


def add_to(
    group: Group,
    *,
    node: str,
    client: Client,
    records: Records,
    configured: Configured,
    state: Path,
    clock: Clock,
    observed: Observed,
    ours: Ours = every_record,
    kubelet: Path | None = None,
    engine: str = "",
) -> Discovery:
    """Add discovery and cleaning of this machine to a group of components."""
    workers = Workers()
    mounts, devices = KernelMounts(), KernelDevices(workers=workers)
    recorder = ApiRecorder(client, component="localpv-agent", clock=clock)
    discovery = Discovery(
        node=node,
        records=records,
        host=HostView(
            folders=KernelFolders(workers=workers),
            mounts=mounts,
            devices=devices,
            marks=DiskMarks(workers=workers),
            uevents=KernelUevents(),
            workers=workers,
        ),
        clock=clock,
        configuration=configured.current,
        recorder=observed.discoveries(recorder),
        observe=observed.queues,
        ours=ours,
        engine=engine,
    )
    observed.node(discovery, hung=lambda: len(workers.stuck()), clock=clock)
    cleaning = cleaner(
        node=node,
        records=records,
        configured=configured,
        state=state,
        clock=clock,
        recorder=recorder,
        observed=observed,
        workers=workers,
        ours=ours,
    )
    pools = Pools(workers=workers)
    pools.configure(configured.current)
    configured.on_change(discovery.configure)
    configured.on_change(pools.configure)
    group.add("agent's events", recorder.run)
    group.add("discovery", discovery.run)
    group.add("cleaning", cleaning.run)
    group.add(
        "pools",
        lambda: pool_parts.serve(
            pools,
            node=node,
            client=client,
            clock=clock,
            observed=observed,
            workers=workers,
            state=state,
            kubelet=kubelet,
        ),
    )
    return discovery


def cleaner(
    *,
    node: str,
    records: Records,
    configured: Configured,
    state: Path,
    clock: Clock,
    recorder: Recorder,
    observed: Observed,
    workers: Workers | None = None,
    only: str = "",
    ours: Ours = every_record,
) -> Cleaner:
    """What cleans this machine's disks; with `only` that one, whose order is a Job's."""
    workers = workers or Workers()
    mounts, devices = KernelMounts(), KernelDevices(workers=workers)
    made = Cleaner(
        scope=CleaningScope(node=node, only=only, ours=ours),
        records=records,
        classes=lambda: configured.current.classes,
        executor=HostExecutor(
            workers=workers,
            devices=devices,
            mounts=mounts,
            openers=KernelOpeners(workers=workers),
            trees=KernelTrees(workers=workers, mounts=mounts),
            wiping=KernelWiper(workers=workers, devices=devices),
            marks=DiskMarks(workers=workers),
        ),
        state_folder=state,
        clock=clock,
        recorder=observed.cleanings(recorder),
        observe=observed.queues,
    )
    made.configure(configured.current)
    configured.on_change(made.configure)
    return made
