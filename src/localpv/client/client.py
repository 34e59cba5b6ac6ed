"""The client that a component holds: from it come the objects of each resource."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from localpv.api.kinds.meta import Kind
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.client.codec import TypedCodec, UntypedCodec
from localpv.client.config import Connection
from localpv.client.objects import Objects, UntypedObjects
from localpv.client.transport import Observer, Request, Retrying, Transport, error_of
from localpv.runtime.clock import Clock, SystemClock

K = TypeVar("K", bound=Kind)


class Client:
    """Calls to one API server over any transport.

    `field_manager` is the name under which this component's fields are kept in managedFields.
    """

    def __init__(self, transport: Transport, *, field_manager: str) -> None:
        self._transport = transport
        self._field_manager = field_manager

    def objects(self, kind: type[K]) -> Objects[K]:
        """Typed objects, such as `client.objects(PersistentVolume)`."""
        return Objects(self._transport, TypedCodec(kind), field_manager=self._field_manager)

    def untyped(self, resource: Resource) -> UntypedObjects:
        """Objects as dictionaries, of any resource."""
        return UntypedObjects(self._transport, UntypedCodec(resource), field_manager=self._field_manager)

    async def read(self, path: str) -> Object:
        """The JSON at a path that is no resource, such as /version or /apis."""
        answer = await self._transport.request(Request(method="GET", path=path))
        if answer.code >= 400:
            raise error_of(answer)
        return msgspec.json.decode(answer.body, type=dict)


@asynccontextmanager
async def connect(
    connection: Connection,
    *,
    component: str,
    clock: Clock | None = None,
    observer: Observer | None = None,
    connections: int = 0,
) -> AsyncIterator[Client]:
    """A client over the network; the connections close with the with-block. `connections` is how many it may have at
    once; with 0 as many as it likes, within reason.

    The component's name is in the User-Agent and in managedFields (`localpv-agent`).
    """
    from localpv.client.http import CONNECTIONS, HttpTransport

    most = connections or CONNECTIONS
    async with HttpTransport(connection, component=component, observer=observer, connections=most) as transport:
        retrying = Retrying(transport, clock=clock or SystemClock())
        yield Client(retrying, field_manager=f"localpv-{component}")
