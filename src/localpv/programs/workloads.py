"""Workloads as a part of `localpv up`: what kube-controller-manager does for pods on Kubernetes."""

from __future__ import annotations

from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.engine.controllers.controllers import Workloads
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group


def add_to(group: Group, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
    """Add the controllers of all kinds that make pods, and the one that makes claims for ephemeral volumes."""
    workloads = Workloads(client, informers=informers, clock=clock)
    group.add("workloads", workloads.run, ready=workloads.ready)
