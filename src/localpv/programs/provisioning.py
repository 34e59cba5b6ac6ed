"""Volumes of pools, as a component of a program: loaded when the first class or volume of theirs is there.

Most installations have none, and what provisions is code and three more watches.
"""

from __future__ import annotations

import asyncio

from localpv.api.kinds.volumes import PersistentVolume, StorageClass
from localpv.programs.configuring import Configured
from localpv.programs.observing import Observed
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume import pool_names
from localpv.volume.informers import VolumeInformers


def add_to(
    group: Group,
    *,
    informers: VolumeInformers,
    configured: Configured,
    clock: Clock,
    observed: Observed,
    capacity_in: str = "",
) -> None:
    """Provision for classes of ours. With `capacity_in`, a namespace, kube-scheduler is told there what is free."""

    async def run() -> None:
        await _wanted(informers)
        from localpv.manager.provision.controller import Provisioning

        provisioning = Provisioning(
            informers.client,
            informers=informers,
            configuration=lambda: configured.current,
            clock=clock,
            capacity_in=capacity_in,
            observe=observed.queues,
        )
        await provisioning.run()

    group.add("provisioning", run)


async def _wanted(informers: VolumeInformers) -> None:
    """Wait for a class that names our driver, or a volume that it made."""
    wanted = asyncio.Event()

    def class_changed(old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None and new.provisioner == pool_names.DRIVER:
            wanted.set()

    def volume_changed(old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and new.spec.csi is not None and new.spec.csi.driver == pool_names.DRIVER:
            wanted.set()

    informers.informer(StorageClass).add_event_handler(class_changed)
    informers.volumes.add_event_handler(volume_changed)
    await wanted.wait()
