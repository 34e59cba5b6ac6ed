"""`localpv manager`: the only writer of PersistentVolumes. Several may run; one leads."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from localpv.api import roles
from localpv.api.kinds.cluster import Lease
from localpv.client import client as clients
from localpv.client.config import Connection
from localpv.client.lease import Election, Ended
from localpv.deploy.local_storage import NodePods
from localpv.disk.records.api import ApiRecords
from localpv.manager.agents import AgentPods, Discoverers
from localpv.manager.manager import Manager, ManagerScope
from localpv.manager.release.jobs import Jobs
from localpv.observe.recorder import ApiRecorder
from localpv.programs import binding, configuring, operator, provisioning, stopping
from localpv.programs.configuring import Configured
from localpv.programs.local_storages import LocalStorageClasses
from localpv.programs.observing import Observed
from localpv.runtime.clock import SystemClock
from localpv.runtime.group import Group
from localpv.volume.informers import VolumeInformers

log = logging.getLogger(__name__)

LEASE = "localpv-manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    connection: Connection
    probes: str = ""
    """HOST:PORT where /livez, /readyz and /metrics are answered; empty for nowhere."""
    config: Path | None
    """Folder with the keys of the ConfigMap as files; None reads the ConfigMap from the API."""
    config_map: str
    namespace: str
    identity: str
    """Who this candidate is, among those who would lead."""

    agents: str = roles.AGENT
    """Name of the DaemonSet of the agents, which Jobs that clean look like."""

    job_image: str = ""
    """The image of such Jobs; empty for that of the agents."""

    pods: NodePods | None = None
    """How the pods run that serve LocalStorages on nodes; None to leave LocalStorages to others."""


async def run(settings: Settings) -> None:
    """Manage until SIGTERM or Ctrl-C, whenever this process leads."""
    clock = SystemClock()
    observed = Observed("manager")
    requests = observed.requests(settings.connection.url)
    async with clients.connect(settings.connection, component="manager", observer=requests) as client:
        if settings.config is not None:
            read = configuring.from_folder(settings.config)
        else:
            read = configuring.from_config_map(client, settings.config_map, settings.namespace)
        storages = LocalStorageClasses(client, namespace=settings.namespace, clock=clock)
        configured = Configured(configuring.with_local_storages(read, storages.classes), clock=clock)
        storages.changed = configured.look_now
        await configured.load()
        election = Election(
            client.objects(Lease),
            name=LEASE,
            namespace=settings.namespace,
            identity=settings.identity,
            clock=clock,
        )

        recorder = observed.publications(ApiRecorder(client, component=LEASE, clock=clock))
        leading: Manager | None = None

        async def manage() -> None:
            nonlocal leading
            records = ApiRecords(client, clock=clock)
            jobs = Jobs(
                client,
                namespace=settings.namespace,
                agents=settings.agents,
                image=settings.job_image,
                records=records,
                configuration=lambda: configured.current,
                clock=clock,
            )
            informers = VolumeInformers(client, clock=clock)
            manager = leading = Manager(
                informers,
                records=records,
                configuration=configured.current,
                clock=clock,
                scope=ManagerScope(
                    has_looked=AgentPods(client, namespace=settings.namespace).have_looked,
                    has_linked=Discoverers(client, storages=storages.accepted).have_linked,
                ),
                recorder=recorder,
                observe=observed.queues,
                jobs=jobs,
            )
            configured.on_change(manager.configure)
            log.info("leading identity=%s", settings.identity)
            parts = Group(clock=clock)
            parts.add("informers", informers.run)
            parts.add("manager", manager.run, ready=manager.ready)
            binding.add_placer(parts, client=client, informers=informers, clock=clock)
            provisioning.add_to(
                parts,
                informers=informers,
                configured=configured,
                clock=clock,
                observed=observed,
                capacity_in=settings.namespace,
            )
            if (pods := settings.pods) is not None:
                parts.add(
                    "operator",
                    lambda: operator.serve(
                        client,
                        namespace=settings.namespace,
                        pods=pods,
                        clock=clock,
                        observed=observed,
                        is_configured=configured.has_of_its_own,
                    ),
                )
            try:
                await parts.run()
            finally:
                leading = None  # what it has seen is not ours to tell any more

        async def lead() -> None:
            while await election.lead(manage) is Ended.LOST:
                log.warning("lost the lease, waiting to lead again")

        observed.configuration(configured)
        observed.election(LEASE, lambda: election.leading)
        observed.manager(lambda: leading)
        group = Group(clock=clock)
        group.add("configuration", configured.run)
        group.add("local storages", storages.run)
        group.add("manager", lead)
        await stopping.until_stopped(group, "ready manager", probes=settings.probes, observed=observed)
