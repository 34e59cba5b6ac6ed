"""The binder, and the placer of claims that want to be together or apart, as components of a program."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.lifecycle.bind.binder import Binder
from localpv.lifecycle.groups.placer import Placer
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group


def add_to(group: Group, *, client: Client, clock: Clock) -> Binder:
    """Bind claims and volumes, as kube-controller-manager does on Kubernetes, and place those with wishes."""
    binder = Binder(client, clock=clock)
    group.add("binder", binder.run, ready=binder.ready)
    add_placer(group, client=client, clock=clock)
    return binder


def add_placer(group: Group, *, client: Client, clock: Clock) -> Placer:
    """Only the placer, for a cluster whose own parts bind."""
    placer = Placer(client, clock=clock)
    group.add("placer", placer.run, ready=placer.ready)
    return placer
