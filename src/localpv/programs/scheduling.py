"""Where the scheduler of the embedded engine is put together. On Kubernetes the cluster has its own."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.lifecycle.schedule.scheduler import Scheduler
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group


def add_to(group: Group, *, client: Client, clock: Clock) -> Scheduler:
    """Add the scheduler to the components of a process."""
    scheduler = Scheduler(client, clock=clock)
    group.add("scheduler", scheduler.run, ready=scheduler.ready)
    return scheduler
