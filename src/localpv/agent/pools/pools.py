"""The pools of this node, as its classes name them.

A pool whose settings change is made anew; its volumes are found again, for all that is known of them lies in it. One
that no class names any more is served on while the process runs: volumes of it may be in use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from localpv.api.kinds.localpool import PoolKind
from localpv.config.pools import PoolSettings
from localpv.config.settings import Configuration
from localpv.host.workers import Workers

if TYPE_CHECKING:
    from localpv.agent.pools.pool import Pool

log = logging.getLogger(__name__)


class Pools:
    """All pools of one node, by name."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers
        self._pools: dict[str, tuple[PoolSettings, Pool]] = {}
        self._classes: dict[str, tuple[str, ...]] = {}
        self._listeners: list[Callable[[], None]] = []

    def configure(self, configuration: Configuration) -> None:
        """Let a configuration take effect."""
        classes: dict[str, list[str]] = {}
        for settings in configuration.classes.values():
            if (pool := settings.pool) is None:
                continue
            classes.setdefault(pool.name, []).append(settings.name)
            known = self._pools.get(pool.name)
            if known is None or known[0] != pool:
                self._pools[pool.name] = (pool, self._made(pool))
                log.info("pool name=%s kind=%s place=%s", pool.name, pool.kind, pool.place)
        self._classes = {name: tuple(sorted(names)) for name, names in classes.items()}
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Be told whenever pools or their classes may have changed."""
        self._listeners.append(listener)

    def get(self, name: str) -> Pool | None:
        found = self._pools.get(name)
        return found[1] if found is not None else None

    def list(self) -> Sequence[Pool]:
        return [pool for _, pool in self._pools.values()]

    def classes_of(self, name: str) -> tuple[str, ...]:
        """The classes that name a pool, sorted."""
        return self._classes.get(name, ())

    def _made(self, settings: PoolSettings) -> Pool:
        # Most nodes have no pool, and need none of this in memory.
        if settings.kind != PoolKind.FILE:
            return self._of_lvm(settings)
        from localpv.agent.pools.file_pool import FilePool

        return FilePool(
            name=settings.name,
            directory=Path(settings.directory),
            size_bytes=settings.size_bytes,
            workers=self._workers,
        )

    def _of_lvm(self, settings: PoolSettings) -> Pool:
        from localpv.agent.pools.lvm_pool import LvmPool, ThinPool
        from localpv.host.devices import KernelDevices
        from localpv.host.lvm import KernelLvm
        from localpv.host.wiper import KernelWiper

        devices = tuple(map(Path, settings.devices))
        looked_at = KernelDevices(workers=self._workers)
        wiper = KernelWiper(workers=self._workers, devices=looked_at)
        lvm = KernelLvm(workers=self._workers, devices=looked_at, wiper=wiper, only=devices)
        if settings.kind == PoolKind.LVM:
            return LvmPool(
                name=settings.name,
                group=settings.volume_group,
                lvm=lvm,
                devices=devices,
                stripes=settings.stripes,
            )
        return ThinPool(
            name=settings.name,
            group=settings.volume_group,
            thin_pool=settings.thin_pool,
            lvm=lvm,
            devices=devices,
            size_bytes=settings.size_bytes,
            overprovision=settings.overprovision,
        )
