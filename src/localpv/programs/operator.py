"""`localpv operator`: LocalStorages into classes, pods on nodes and a status. Several may run; one leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from localpv import errors
from localpv.api import roles
from localpv.api.kinds.cluster import Lease
from localpv.api.kinds.localstorage import LOCAL_STORAGE_NODES, LOCAL_STORAGES
from localpv.client import client as clients
from localpv.client.client import Client
from localpv.client.config import Connection
from localpv.client.lease import Election, Ended
from localpv.deploy.local_storage import NodePods
from localpv.manager.operator.operator import Operator
from localpv.programs import stopping
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock, SystemClock
from localpv.runtime.group import Group

log = logging.getLogger(__name__)

LEASE = roles.OPERATOR
LOOK_EVERY_SECONDS = 30.0
"""How often it is looked whether LocalStorages are defined, while they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    connection: Connection
    probes: str = ""
    """HOST:PORT where /livez, /readyz and /metrics are answered; empty for nowhere."""

    namespace: str
    identity: str
    """Who this candidate is, among those who would lead."""

    pods: NodePods


async def run(settings: Settings) -> None:
    """Serve LocalStorages until SIGTERM or Ctrl-C, whenever this process leads."""
    clock = SystemClock()
    observed = Observed("operator")
    requests = observed.requests(settings.connection.url)
    async with clients.connect(settings.connection, component="operator", observer=requests) as client:
        election = Election(
            client.objects(Lease),
            name=LEASE,
            namespace=settings.namespace,
            identity=settings.identity,
            clock=clock,
        )

        async def operate() -> None:
            log.info("leading identity=%s", settings.identity)
            await serve(client, namespace=settings.namespace, pods=settings.pods, clock=clock, observed=observed)

        async def lead() -> None:
            while await election.lead(operate) is Ended.LOST:
                log.warning("lost the lease, waiting to lead again")

        observed.election(LEASE, lambda: election.leading)
        group = Group(clock=clock)
        group.add("operator", lead)
        await stopping.until_stopped(group, "ready operator", probes=settings.probes, observed=observed)


async def serve(
    client: Client,
    *,
    namespace: str,
    pods: NodePods,
    clock: Clock,
    observed: Observed,
    is_configured: Callable[[str], bool] = lambda name: False,
) -> None:
    """Serve the LocalStorages of a namespace until cancelled, from when they are defined."""
    await until_defined(client, clock=clock)
    operator = Operator(
        client,
        namespace=namespace,
        objects=pods,
        clock=clock,
        is_configured=is_configured,
        observe=observed.queues,
    )
    await operator.run()


async def until_defined(client: Client, *, clock: Clock, if_not: Callable[[], None] = lambda: None) -> None:
    """Wait until the server has the kinds; `if_not` is told when it certainly has not."""
    while True:
        try:
            if await are_defined(client):
                return
            if_not()
            log.info("LocalStorages are not defined here, looking again seconds=%.0f", LOOK_EVERY_SECONDS)
        except errors.LocalpvError as error:
            log.warning("cannot tell whether LocalStorages are defined reason=%s", error)
        await clock.sleep(LOOK_EVERY_SECONDS)


async def are_defined(client: Client) -> bool:
    """Whether the server has the kinds. Raises when there is no certain answer."""
    for resource in (LOCAL_STORAGES, LOCAL_STORAGE_NODES):
        try:
            served = await client.read(resource.path)
        except errors.NotFound:
            return False
        if all(each.get("name") != resource.plural for each in served.get("resources") or ()):
            return False
    return True
