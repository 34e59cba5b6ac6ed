"""Where the scheduler of the embedded engine is put together. On Kubernetes the cluster has its own."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.engine.scheduler.scheduler import Scheduler
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume.informers import Stock


def add_to(group: Group, *, client: Client, stock: Stock, clock: Clock) -> Scheduler:
    """Give pods their nodes; the stock, which is in the group already, may serve others too."""
    scheduler = Scheduler(client, stock=stock, clock=clock)
    group.add("scheduler", scheduler.run, ready=scheduler.ready)
    return scheduler
