"""Volumes of pools, as a component of a program: loaded when the first class or volume of theirs is there.

Most installations have none, and what provisions is code and three more watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume, StorageClass
from localpv.client.client import Client
from localpv.config.settings import Configuration, Reclaim
from localpv.programs.configuring import Configured
from localpv.programs.observing import Observed
from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume import pool_names
from localpv.volume.informers import VolumeInformers

log = logging.getLogger(__name__)


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


def add_classes(group: Group, *, client: Client, configured: Configured, clock: Clock) -> None:
    """Make the StorageClasses of pools, and the CSIDriver, where nobody has: people may write others in their place."""

    async def run() -> None:
        changed, backoff = asyncio.Event(), Backoff()
        configured.on_change(lambda _: changed.set())
        while True:
            changed.clear()
            try:
                await _make_classes(client, configured.current)
                backoff.reset()
                await changed.wait()
            except errors.LocalpvError as error:
                wait = backoff.next()
                log.warning("classes of pools wait seconds=%.1f reason=%s", wait, error)
                await clock.sleep(wait)

    group.add("classes of pools", run)


async def _make_classes(client: Client, configuration: Configuration) -> None:
    wanted = [each for each in configuration.classes.values() if each.pool is not None]
    if not wanted:
        return
    from localpv.api.kinds.csi import CSIDriver
    from localpv.deploy import storage
    from localpv.deploy.plan import ClassObject

    with contextlib.suppress(errors.AlreadyExists):
        await client.objects(CSIDriver).create_from(storage.csi_driver())
    for each in wanted:
        policy = Reclaim.RETAIN if each.reclaim is Reclaim.RETAIN else Reclaim.DELETE
        made = storage.storage_class(ClassObject(name=each.name, reclaim_policy=policy.value, pool=True))
        with contextlib.suppress(errors.AlreadyExists):
            await client.objects(StorageClass).create_from(made)


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
