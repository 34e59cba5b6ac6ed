"""The binder, and the placer of claims that want to be together or apart, as components of a program."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.engine.binder import binder as binders
from localpv.engine.binder.binder import Binder
from localpv.manager.groups import placer as placers
from localpv.manager.groups.consumers import Consumers
from localpv.manager.groups.placer import Placer
from localpv.manager.volume_modes import Modes
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume.informers import Stock


def add_stock(group: Group, *, client: Client, clock: Clock) -> Stock:
    """The volumes and claims that all parts of one process share."""
    stock = Stock(client, clock=clock, indexes=binders.INDEXES | placers.INDEXES)
    group.add("stock", stock.run, ready=stock.ready)
    return stock


def add_to(group: Group, *, client: Client, stock: Stock, clock: Clock, consumers: Consumers | None = None) -> Binder:
    """Bind claims and volumes, as kube-controller-manager does on Kubernetes, and place those with wishes.

    With `consumers`, which are ready before the placer, these go where the pods that use them have room.
    """
    binder = Binder(client, stock=stock, clock=clock)
    placer = Placer(client, stock=stock, clock=clock, consumers=consumers)
    group.add("binder", binder.run, ready=binder.ready)
    _add_modes(group, client=client, stock=stock, clock=clock)
    group.add("placer", placer.run, ready=placer.ready)
    return binder


def add_placer(group: Group, *, client: Client, clock: Clock) -> Placer:
    """The placer, and what its binding does not tell, for a cluster whose own parts bind."""
    stock = Stock(client, clock=clock, indexes=placers.INDEXES)
    placer = Placer(client, stock=stock, clock=clock)
    group.add("stock", stock.run, ready=stock.ready)
    group.add("placer", placer.run, ready=placer.ready)
    _add_modes(group, client=client, stock=stock, clock=clock)
    return placer


def _add_modes(group: Group, *, client: Client, stock: Stock, clock: Clock) -> None:
    modes = Modes(client, stock=stock, clock=clock)
    group.add("modes", modes.run, ready=modes.ready)
