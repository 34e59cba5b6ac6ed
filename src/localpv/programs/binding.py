"""The binder, and whoever chooses volumes for claims that want to be together or apart, as components of a program."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.lifecycle.bind.binder import Binder
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group


def add_to(group: Group, *, client: Client, clock: Clock) -> Binder:
    """Bind claims and volumes, as kube-controller-manager does on Kubernetes."""
    binder = Binder(client, clock=clock)
    group.add("binder", binder.run, ready=binder.ready)
    return binder
