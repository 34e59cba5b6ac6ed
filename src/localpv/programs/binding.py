"""The binder, and the placer of claims that want to be together or apart, as components of a program."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.lifecycle.bind import binder as binders
from localpv.lifecycle.bind.binder import Binder
from localpv.lifecycle.groups import placer as placers
from localpv.lifecycle.groups.placer import Placer
from localpv.lifecycle.stock import Stock
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group


def add_stock(group: Group, *, client: Client, clock: Clock) -> Stock:
    """The volumes and claims that all parts of one process share."""
    stock = Stock(client, clock=clock, indexes=binders.INDEXES | placers.INDEXES)
    group.add("stock", stock.run, ready=stock.ready)
    return stock


def add_to(group: Group, *, client: Client, stock: Stock, clock: Clock) -> Binder:
    """Bind claims and volumes, as kube-controller-manager does on Kubernetes, and place those with wishes."""
    binder = Binder(client, stock=stock, clock=clock)
    placer = Placer(client, stock=stock, clock=clock)
    group.add("binder", binder.run, ready=binder.ready)
    group.add("placer", placer.run, ready=placer.ready)
    return binder


def add_placer(group: Group, *, client: Client, clock: Clock) -> Placer:
    """Only the placer, for a cluster whose own parts bind."""
    stock = Stock(client, clock=clock, indexes=placers.INDEXES)
    placer = Placer(client, stock=stock, clock=clock)
    group.add("stock", stock.run, ready=stock.ready)
    group.add("placer", placer.run, ready=placer.ready)
    return placer
