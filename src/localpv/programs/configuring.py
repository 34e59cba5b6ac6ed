"""The administrator's configuration while a program runs: read again and again, the last good one stays in force."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from localpv.api.kinds.cluster import ConfigMap
from localpv.client.client import Client
from localpv.config import environment, sources, union
from localpv.config.reading import Loaded
from localpv.config.settings import ClassSettings, Configuration
from localpv.config.values import Problem
from localpv.errors import ConfigurationError, Forbidden, LocalpvError, NotSupported
from localpv.host.folders import KernelFolders
from localpv.host.workers import Workers
from localpv.runtime.clock import Clock

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds between two looks at the configuration; a mounted ConfigMap changes within a minute anyhow."""

Read = Callable[[], Awaitable[Loaded]]


def from_folder(folder: Path, *, others: Collection[str] = ()) -> Read:
    """A ConfigMap mounted as a folder, or a folder that looks like one; `others` are endings of files to pass over."""

    async def read() -> Loaded:
        return await asyncio.to_thread(sources.from_folder, folder, others=others)

    return read


def from_config_map(client: Client, name: str, namespace: str) -> Read:
    """A ConfigMap read from the API."""

    async def read() -> Loaded:
        found = await client.objects(ConfigMap).find(name, namespace)
        if found is None:
            raise ConfigurationError(
                f"there is no ConfigMap {namespace}/{name}", hint="create it, or name another one with --config-map"
            )
        return sources.from_config_map(found)

    return read


async def from_nothing() -> Loaded:
    """The configuration of an agent that serves LocalStorages alone."""
    return Loaded(Configuration())


Classes = Callable[[], Awaitable[tuple[Mapping[str, ClassSettings], tuple[Problem, ...]]]]
"""The classes of LocalStorages, and what is wrong with them; what cannot be read now is as it was read before."""


def with_local_storages(read: Read, classes: Classes) -> Read:
    """A configuration and the classes of LocalStorages, as one."""

    async def both() -> Loaded:
        loaded = await read()
        if loaded.config is None:
            return loaded
        return union.united(loaded.config, *(await classes()))

    return both


CLASSIC_NAMES = ("local-volume-config", "local-volume-default-config")
"""ConfigMaps of the classic provisioner: that of its examples, and that of its bootstrapper."""


def from_classic_places(client: Client, folder: Path, *, name: str, namespace: str) -> Read:
    """Where the pods of the classic DaemonSet find their configuration: mounted, or in a ConfigMap of their namespace
    that is named in the environment, or that has one of the usual names."""
    names = (name,) if name else CLASSIC_NAMES

    async def read() -> Loaded:
        if folder.is_dir():
            return await asyncio.to_thread(sources.from_folder, folder)
        for each in names:
            try:
                found = await client.objects(ConfigMap).find(each, namespace)
            except Forbidden as error:
                raise ConfigurationError(
                    f"the configuration is not mounted at {folder}, and ConfigMap {namespace}/{each} may not be read:"
                    f" {error.message}",
                    hint=f"allow it: kubectl -n {namespace} create role NAME --verb=get --resource=configmaps"
                    f" --resource-name={each}, and a rolebinding",
                ) from error
            if found is not None:
                return sources.from_config_map(found)
        raise ConfigurationError(
            f"there is no configuration: nothing is mounted at {folder}, and namespace {namespace} has no ConfigMap"
            f" {' or '.join(names)}",
            hint=f"create one with the key storageClassMap, or name yours in the variable {environment.VOLUME_CONFIG}",
        )

    return read


async def follow_folder(folder: Path, configured: Configured) -> None:
    """Have the configuration read whenever something changes in a folder."""
    try:
        changes = KernelFolders(workers=Workers()).changes([folder])
    except NotSupported as error:
        log.warning("%s is looked at every %g s only: %s", folder, LOOK_EVERY, error)
        await asyncio.get_running_loop().create_future()
    async with changes as feed:
        async for _ in feed:
            configured.look_now()


class Configured:
    """Tells its listeners of every configuration that comes into force."""

    def __init__(
        self, read: Read, *, clock: Clock, defaults: Callable[[Configuration], Configuration] = lambda ours: ours
    ) -> None:
        """`defaults` fills in what a configuration leaves out, where that is not as our own defaults have it."""
        self._read = read
        self._clock = clock
        self._defaults = defaults
        self._listeners: list[Callable[[Configuration], None]] = []
        self._problems: tuple[object, ...] = ()
        self._asked = asyncio.Event()
        self.current = Configuration()

    @property
    def problems(self) -> tuple[object, ...]:
        """What is wrong in what was read last; none when it is in force."""
        return self._problems

    async def load(self) -> None:
        """The configuration to start with; ConfigurationError when there is no right one."""
        loaded = await self._read()
        if loaded.config is None:
            raise ConfigurationError(
                "the configuration is wrong: " + "; ".join(map(str, loaded.problems)),
                hint="mend the keys named above; the program does not start with a guess",
            )
        self._take(loaded)

    def has_of_its_own(self, name: str) -> bool:
        """Whether a class is configured, and not by a LocalStorage."""
        settings = self.current.classes.get(name)
        return settings is not None and not settings.from_local_storage

    def look_now(self) -> None:
        """Read again, now: what is read has changed."""
        self._asked.set()

    def forget_listeners(self) -> None:
        """Tell nobody any more: whoever listened has ended."""
        self._listeners.clear()

    def on_change(self, listener: Callable[[Configuration], None]) -> None:
        self._listeners.append(listener)

    async def run(self) -> None:
        while True:
            timer = self._clock.call_later(LOOK_EVERY, self._asked.set)
            try:
                await self._asked.wait()
            finally:
                timer.cancel()
            self._asked.clear()
            try:
                loaded = await self._read()
            except LocalpvError as error:
                log.warning("the configuration cannot be read, the last one stays in force error=%s", error)
                continue
            self._take(loaded)

    def _take(self, loaded: Loaded) -> None:
        if loaded.config is not None:
            loaded = replace(loaded, config=self._defaults(loaded.config))
        now = sources.succeed(self.current, loaded)
        if now.problems != self._problems:
            self._problems = now.problems
            for problem in now.problems:
                log.error("the configuration is wrong, there the last good one stays in force problem=%s", problem)
        if now.changed and now.config is not None:
            self.current = now.config
            log.info(
                "new configuration added=%s removed=%s altered=%s",
                ",".join(sorted(now.added)) or "-",
                ",".join(sorted(now.removed)) or "-",
                ",".join(sorted(now.altered)) or "-",
            )
            for listener in self._listeners:
                listener(now.config)
