"""The API server as a whole: opened, started and stopped in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from localpv.engine.apiserver import bootstrap, certificates, registry
from localpv.engine.apiserver.access import Access
from localpv.engine.apiserver.admission import Admission, StoredObjects
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.tokens import Tokens
from localpv.engine.apiserver.bounds import Bounds
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.connections import Connections, Server
from localpv.engine.apiserver.controllers.custom_resources import DefinitionKeeper
from localpv.engine.apiserver.controllers.events import forget_old_events
from localpv.engine.apiserver.controllers.garbage_collector import GarbageCollector
from localpv.engine.apiserver.controllers.namespaces import NamespaceKeeper
from localpv.engine.apiserver.controllers.protection import Protection
from localpv.engine.apiserver.handler import Handler
from localpv.engine.apiserver.kinds.base import Gates
from localpv.engine.apiserver.observing import Observer, Unobserved
from localpv.engine.apiserver.pod_subresources import PodAccess
from localpv.engine.apiserver.quota import Quota
from localpv.engine.apiserver.storage import Storage
from localpv.engine.apiserver.verbs.create import create_object
from localpv.engine.apiserver.verbs.subresources import Shapes
from localpv.engine.store.store import Store
from localpv.errors import AlreadyExists, StartError

log = logging.getLogger(__name__)

DRAIN_SECONDS = 2.0
"""How long requests that are under way may take when the server stops."""


BACKLOG = 128
"""Connections that wait to be accepted, and that are accepted before others get their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an administrator chooses."""

    data: Path
    """Folder for the database, the certificates and the tokens."""

    host: str = "127.0.0.1"
    port: int = 7443
    """0 takes any free port."""

    node_name: str = ""
    """Name of this machine's Node object; empty makes none."""

    gates: Gates = field(default_factory=Gates)

    bounds: Bounds = field(default_factory=Bounds)
    """How many requests and connections there may be at once, and how much may be stored."""

    durable: bool = True
    """Wait for the disk before a write is acknowledged. Only tests turn it off."""


class ApiServer:
    """Owns the store, the listening socket and the tasks behind them."""

    def __init__(self, settings: Settings, *, observer: Observer | None = None) -> None:
        self.settings = settings
        self._observer = observer or Unobserved()
        self.store = Store(settings.data, durable=settings.durable)
        self.objects = StoredObjects(self.store)
        self.kinds, self.catalogue = registry.kinds(gates=settings.gates, objects=self.objects)
        self._runner: web.ServerRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ready = False
        self.url = ""

    @property
    def kubeconfig(self) -> Path:
        return self.settings.data / "kubeconfig"

    @property
    def handler(self) -> Handler:
        """What answers requests, also those that come from inside this process."""
        return self._handler

    def look_into_pods_with(self, pods: PodAccess) -> None:
        """Logs and exec are answered by whoever runs the pods."""
        self._handler.insides.pods = pods

    async def start(self) -> None:
        """Ready to serve when this returns. Raises StartError or StoreError, and then has let go of everything."""
        settings = self.settings
        _make_folder(settings.data)
        # The certificate first: making one forks, and that is safe only before there are threads.
        wanted = certificates.names(settings.host, settings.node_name)
        paths = certificates.ensure(settings.data / "tls", wanted)
        self.tokens = Tokens.load(settings.data / "auth")
        self.store.open()
        try:
            self.store.start()
            self._assemble(paths.ca.read_text())
            await self._bootstrap()
            await self._listen(paths)
            certificates.write_kubeconfig(self.kubeconfig, self.url, paths.ca.read_bytes(), self.tokens.admin_token)
        except BaseException:
            await self.stop()
            raise
        self._ready = True

    def _assemble(self, ca: str) -> None:
        store, kinds = self.store, self.kinds
        authorizer = Authorizer(self.objects)
        self.access = Access(tokens=self.tokens, objects=self.objects, authorizer=authorizer)
        self.storage = Storage(
            store=store,
            admission=Admission(objects=self.objects, authorizer=authorizer),
            quota=Quota(self.settings.bounds, store.usage),
        )
        definitions = DefinitionKeeper(store=store, kinds=kinds, storage=self.storage)
        garbage = GarbageCollector(store=store, kinds=kinds, storage=self.storage)
        namespaces = NamespaceKeeper(
            store=store,
            kinds=kinds,
            storage=self.storage,
            furnishing=lambda name: bootstrap.service_account_defaults(name, ca),
        )
        protection = Protection(store=store, kinds=kinds, storage=self.storage)
        documents = registry.documents(kinds, self.catalogue)
        kinds.on_change(documents.invalidate)
        self._handler = Handler(
            store=store,
            kinds=kinds,
            storage=self.storage,
            access=self.access,
            documents=documents,
            is_ready=lambda: self._ready,
            observer=self._observer,
            shapes=Shapes(self.catalogue),
            bounds=self.settings.bounds,
        )
        definitions.load()
        keepers = (definitions, garbage, namespaces, protection)
        store.on_event(self.access.changed)
        for keeper in keepers:
            store.on_event(keeper.changed)
        garbage.load()
        namespaces.load()
        protection.load()
        for work in (
            *(keeper.worker.run() for keeper in keepers),
            forget_old_events(store=store, kinds=kinds, storage=self.storage),
            store.compact_regularly(),
        ):
            self._tasks.append(asyncio.create_task(work))

    async def _bootstrap(self) -> None:
        """What every cluster has; what an administrator has changed or removed of it on purpose stays as it is."""
        for obj in bootstrap.missing(bootstrap.objects(self.settings.node_name), self.objects):
            kind = self.kinds.by_kind(obj["apiVersion"], obj["kind"])
            assert kind is not None
            call = Call(kind=kind, namespace=obj["metadata"].get("namespace", ""))
            with contextlib.suppress(AlreadyExists):  # the upkeep of namespaces makes some of them as well
                await create_object(call, obj, storage=self.storage)

    async def _listen(self, paths: certificates.Paths) -> None:
        settings = self.settings
        book = Connections(settings.bounds)
        self._runner = web.ServerRunner(
            Server(self._handler, book=book), handle_signals=False, shutdown_timeout=DRAIN_SECONDS
        )
        await self._runner.setup()
        context = certificates.ssl_context(paths)
        try:
            for family, address in await _addresses(settings.host, settings.port):
                listener = book.listen(family, address)
                await web.SockSite(self._runner, listener, ssl_context=context, backlog=BACKLOG).start()
        except OSError as error:
            raise _cannot_listen(settings, error) from error
        self._tasks.append(asyncio.create_task(book.sweep()))
        host, port = self._runner.addresses[0][:2]
        shown = settings.host if settings.host not in ("0.0.0.0", "::", "") else "127.0.0.1"
        if ":" in shown:
            shown = f"[{shown}]"
        self.url = f"https://{shown}:{port}"
        log.info("listening host=%s port=%d", host, port)

    async def stop(self) -> None:
        """No new requests, end the watches, finish what is under way, then close the store."""
        self._ready = False
        if self._runner is not None:
            self._handler.close()
            await self._runner.cleanup()
            self._runner = None
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        await self.store.close()


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    """Where to listen: a name may stand for several addresses."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"cannot make the data folder {folder}: {error.strerror}",
            hint="name another folder with --data, or run as a user who may write there",
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartError(
            f"the data folder {folder} is not writable",
            hint="name another folder with --data, or run as its owner",
        )


def _cannot_listen(settings: Settings, error: OSError) -> StartError:
    place = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return StartError(
            f"the address {place} is in use by another program",
            hint="stop that program, or choose another address with --listen HOST:PORT",
        )
    if error.errno == errno.EACCES:
        return StartError(f"no permission to listen on {place}", hint="choose a port above 1023 with --listen")
    return StartError(
        f"cannot listen on {place}: {error.strerror or error}", hint="choose another address with --listen HOST:PORT"
    )
