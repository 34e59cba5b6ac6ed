"""The classes of LocalStorages for a manager, which sees no rules files: those of all accepted ones, and of all groups
that nodes were told about and that wait for their last volumes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap
from localpv.api.kinds.localstorage import LocalStorage
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Selection
from localpv.config import local_storage
from localpv.config.local_storage import NodeConfiguration
from localpv.config.settings import ClassSettings
from localpv.config.values import Problem
from localpv.disk import labels
from localpv.manager.operator import verdict
from localpv.programs import operator
from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group

log = logging.getLogger(__name__)


class LocalStorageClasses:
    """Follows LocalStorages, and what the operator has told nodes; `changed` is called whenever either is another."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock) -> None:
        self._client, self._namespace, self._clock = client, namespace, clock
        self._told = Selection(namespace=namespace, labels=labels.LOCAL_STORAGE)
        self._storages = SharedInformer(client.objects(LocalStorage), clock=clock)
        self._maps = SharedInformer(client.objects(ConfigMap), clock=clock, selection=self._told)
        self._defined = True
        self._backoff = Backoff(most=5.0)
        self.changed: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Follow until cancelled, from when LocalStorages are defined."""
        await operator.until_defined(self._client, clock=self._clock, if_not=self._not_defined)
        self._defined = True
        self._storages.add_event_handler(lambda old, new: self.changed())
        self._maps.add_event_handler(lambda old, new: self.changed())
        group = Group(clock=self._clock)
        group.add("storages", self._storages.run)
        group.add("config maps", self._maps.run)
        await group.run()

    def _not_defined(self) -> None:
        self._defined = False

    async def classes(self) -> tuple[Mapping[str, ClassSettings], tuple[Problem, ...]]:
        """As they are now. Until everything is followed the server is asked: a manager that does not know a class would
        withdraw its volumes."""
        if self._storages.has_synced and self._maps.has_synced:
            return local_storage.classes(self._configurations(self._storages.list(), self._maps.list())), ()
        if not self._defined:
            return {}, ()
        while True:
            try:
                return await self._asked()
            except (errors.ConnectionLost, errors.Unavailable, errors.TooManyRequests, errors.GatewayTimeout) as error:
                # The server may only be starting, as after a restart of both. There is nothing to go on with.
                pause = self._backoff.next()
                log.warning("waits for the server seconds=%.1f reason=%s", pause, error)
                await self._clock.sleep(pause)

    async def _asked(self) -> tuple[Mapping[str, ClassSettings], tuple[Problem, ...]]:
        try:
            storages = (await self._client.objects(LocalStorage).list()).items
            maps = (await self._client.objects(ConfigMap).list(self._told)).items if storages else ()
        except errors.NotFound:
            return {}, ()
        except errors.Forbidden as error:
            if not await operator.are_defined(self._client):
                return {}, ()  # installed without them, and without rights on them
            return {}, (Problem("LocalStorages", f"may not be read, so theirs are not published: {error.message}"),)
        return local_storage.classes(self._configurations(storages, maps)), ()

    def accepted(self) -> list[LocalStorage]:
        """Those that are served; none until all are known."""
        return [*self._accepted(self._storages.list())] if self._storages.has_synced else []

    def _accepted(self, storages: Iterable[LocalStorage]) -> Iterator[LocalStorage]:
        return (each for each in storages if verdict.judge(each, namespace=self._namespace).accepted)

    def _configurations(
        self, storages: Iterable[LocalStorage], maps: Iterable[ConfigMap]
    ) -> Iterable[NodeConfiguration]:
        for storage in self._accepted(storages):
            told = local_storage.node_configuration(storage, local_storage.groups(storage))
            # Nodes hear of it when their kubelets bring it, which takes a minute; nothing is offered meanwhile.
            yield local_storage.retired(told) if storage.metadata.deleting else told
        for each in maps:
            try:
                yield local_storage.read(each.data.get(local_storage.KEY, ""))
            except errors.ConfigurationError as error:
                log.warning("a ConfigMap of a LocalStorage is damaged name=%s error=%s", each.metadata.name, error)
