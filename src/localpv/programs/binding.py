"""The binder, and the placer of claims that want to be together or apart, as components of a program."""

from __future__ import annotations

from localpv.api.kinds.pods import Pod
from localpv.client.client import Client
from localpv.engine.binder.binder import Binder
from localpv.manager.groups.consumers import Consumers
from localpv.manager.groups.placer import Placer
from localpv.manager.volume_modes import Modes
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume.informers import VolumeInformers


def add_informers(group: Group, *, client: Client, clock: Clock) -> VolumeInformers:
    """The volumes and claims that all parts of one process share."""
    informers = VolumeInformers(client, clock=clock, whole=(Pod,))
    group.add("informers", informers.run, ready=informers.ready)
    return informers


def add_to(
    group: Group, *, client: Client, informers: VolumeInformers, clock: Clock, consumers: Consumers | None = None
) -> Binder:
    """Bind claims and volumes, as kube-controller-manager does on Kubernetes, and place those with wishes.

    With `consumers`, which are ready before the placer, these go where the pods that use them have room.
    """
    binder = Binder(client, informers=informers, clock=clock)
    placer = Placer(client, informers=informers, clock=clock, consumers=consumers)
    group.add("binder", binder.run, ready=binder.ready)
    _add_modes(group, client=client, informers=informers, clock=clock)
    group.add("placer", placer.run, ready=placer.ready)
    return binder


def add_placer(group: Group, *, client: Client, informers: VolumeInformers, clock: Clock) -> Placer:
    """The placer, and what its binding does not tell, for a cluster whose own parts bind."""
    placer = Placer(client, informers=informers, clock=clock)
    group.add("placer", placer.run, ready=placer.ready)
    _add_modes(group, client=client, informers=informers, clock=clock)
    return placer


def _add_modes(group: Group, *, client: Client, informers: VolumeInformers, clock: Clock) -> None:
    modes = Modes(client, informers=informers, clock=clock)
    group.add("modes", modes.run, ready=modes.ready)
