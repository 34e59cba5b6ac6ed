"""Where the part that runs pods is put together, over the real machine. On Kubernetes each node has a kubelet."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from localpv import errors
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.client.objects import Selection
from localpv.engine.kubelet import node_status, unsupported
from localpv.engine.kubelet.access import PodAccess
from localpv.engine.kubelet.container_start import ContainerRuntime, NodeFacts
from localpv.engine.kubelet.images import store
from localpv.engine.kubelet.images.store import Images
from localpv.engine.kubelet.node_status import NodeKeeper
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.runner import PodRunner
from localpv.engine.kubelet.volumes import csi_expander, host_parts
from localpv.engine.kubelet.volumes.claims import ApiLookup
from localpv.engine.kubelet.volumes.csi_driver import Calls
from localpv.engine.kubelet.volumes.csi_plugins import CsiPlugins
from localpv.engine.kubelet.volumes.volume_manager import PodVolumes
from localpv.engine.scheduler import admission
from localpv.host import mounts
from localpv.host.folders import KernelFolders
from localpv.host.runc import RuncContainers
from localpv.host.sandboxes import KernelLayers, KernelSandboxes
from localpv.host.workers import Workers
from localpv.observe.recorder import ApiRecorder
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, Outcome
from localpv.runtime.group import Group
from localpv.runtime.queue import WorkQueue

log = logging.getLogger(__name__)


async def add_to(
    group: Group,
    *,
    client: Client,
    informers: InformerFactory,
    clock: Clock,
    node: str,
    data: Path,
    observed: Observed,
) -> PodAccess | None:
    """Add what runs pods to the components of a process; None where it cannot, which the log and the Node tell."""
    paths = KubeletPaths.of(data)
    paths.root.mkdir(parents=True, exist_ok=True, mode=0o750)
    workers = Workers()
    containers = RuncContainers(state=paths.runtime, workers=workers)
    here = node_status.read_machine(paths.root, runtime=await containers.version())

    def missing() -> tuple[str, ...]:
        return containers.missing() if os.geteuid() == 0 else (node_status.ROOT, *containers.missing())

    keeper = NodeKeeper(client, name=node, machine=here, clock=clock, missing=missing)
    group.add("node", keeper.run, ready=keeper.tell)
    if lacking := missing():
        log.warning("pods do not run on this machine: %s", node_status.lacking(lacking))
        return None
    _refuse_mounts_of_before(data)
    paths.make()
    images = Images(paths.images)
    if await store.ensure_busybox(images) is None:
        log.warning("no busybox image: install the package busybox-static, or import one")
    recorder = ApiRecorder(client, component="localpv", clock=clock)
    lookup, features = ApiLookup(client, node=node), await containers.features()
    swept: WorkQueue[str] = WorkQueue(clock=clock)
    plugins = CsiPlugins(
        client,
        node=node,
        registry=paths.layout.registry,
        connect=_connect,
        watch=KernelFolders(workers=workers).changes,
        clock=clock,
        on_registered=swept.add,
    )
    volumes = PodVolumes(
        root=paths.run,
        disk=paths.root,
        host=host_parts.on_this_machine(workers=workers),
        lookup=lookup,
        on_event=lambda pod, reason, message, warning: recorder.event(pod, reason, message, warning=warning),
        observer=observed.storage_operations(),
        drivers=plugins,
        node=node,
    )

    async def admit(pod: Pod) -> tuple[str, str] | None:
        own = await lookup.node()
        refusals = admission.check(pod, own, runner.pods.list()) if own is not None else []
        if refusals:
            return refusals[0].reason, refusals[0].message
        return unsupported.refusal(pod, features=features)

    runner = PodRunner(
        client,
        informer=informers.informer(Pod, Selection(fields=f"spec.nodeName={node}")),
        node=NodeFacts(name=node, host_ip=here.address, boot=here.boot_id, capacity=here.capacity()),
        runtime=ContainerRuntime(
            paths=paths,
            images=images,
            containers=containers,
            sandboxes=KernelSandboxes(workers=workers),
            layers=KernelLayers(workers=workers),
            features=features,
        ),
        volumes=volumes,
        sources=lookup,
        recorder=recorder,
        clock=clock,
        admit=admit,
    )

    async def sweep(driver: str) -> Outcome:
        """A driver has come: pods may have waited for it, and what it holds may have no pod any more."""
        runner.look_at_all()
        await volumes.sweep(driver)
        return Done()

    def claim_changed(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None and csi_expander.is_due(new):
            runner.look_at_users(new.key)

    informers.informer(PersistentVolumeClaim).add_event_handler(claim_changed)
    group.add("CSI drivers", plugins.run)
    group.add("volumes of CSI drivers", Controller("sweep", sweep, queue=swept, clock=clock).run)
    group.add("events of pods", recorder.run)
    group.add("pods", runner.run, ready=runner.pods.wait_synced)
    return PodAccess(records=runner.records, containers=containers, paths=paths)


def _connect(path: Path) -> Calls:
    """Loaded with the first driver: most machines have none, and pay for nothing."""
    from localpv.csi.channel import Channel

    return Channel(path)


def _refuse_mounts_of_before(data: Path) -> None:
    """Earlier versions mounted volumes below the data folder, and their pods may still run there."""
    before = KubeletPaths.before(data)
    with open("/proc/self/mountinfo", "rb") as table:
        mounted = mounts.parse(table.read())
    if found := [one for pods in (before.pods, before.root / "plugins") for one in mounted.below(pods)]:
        raise errors.StartError(
            f"pods of an earlier version of localpv have volumes mounted below {data}, such as {found[0].mount_point}",
            hint=f"localpv down --data {data}, which ends them; then start it again",
        )
