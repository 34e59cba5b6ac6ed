"""Where the scheduler of the embedded engine is put together. On Kubernetes the cluster has its own."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.engine.scheduler.scheduler import Scheduler
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume.informers import VolumeInformers


def add_to(group: Group, *, client: Client, informers: VolumeInformers, clock: Clock) -> Scheduler:
    """Give pods their nodes; the informers, which are in the group already, may serve others too."""
    scheduler = Scheduler(client, informers=informers, clock=clock)
    group.add("scheduler", scheduler.run, ready=scheduler.ready)
    return scheduler
