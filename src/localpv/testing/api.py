"""An API server in a dictionary, as a transport: for tests of what a client does when a server misbehaves.

It keeps versions, history and optimistic locks, and can be told to break. It knows no schemas, selectors, finalizers,
patches other than merge patches, or subresources: what a server answers is tested with real servers. In what it knows
it is held to them by `tests/unit/client/test_fake_api.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from localpv import errors
from localpv.api import status as statuses
from localpv.api import well_known
from localpv.api.objects import Object
from localpv.api.patch import merge_patch
from localpv.api.patch.merge_patch import copied
from localpv.client.transport import Answer, Request

END = None
"""What a broken or ended stream gives last."""


class FakeApi:
    """A transport whose far side is this object."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        """By path, such as /api/v1/nodes/one."""

        self.requests: list[Request] = []
        self.failures: list[Exception | Answer] = []
        """What the next requests meet instead of an answer, first to last."""

        self.down: Exception | None = None
        """What every request meets, for as long as it is set."""

        self.initial_events = True
        """Whether the server knows sendInitialEvents."""

        self._versions = itertools.count(1)
        self._version = 0
        self._oldest = 0
        self._history: list[tuple[int, str, str, Object]] = []
        self._streams: set[asyncio.Queue[bytes | Exception | None]] = set()
        self._listeners: dict[asyncio.Queue[bytes | Exception | None], str] = {}

    # What a test does to the server.

    def put(self, path: str, obj: Object) -> Object:
        """Create or replace an object behind the clients' backs."""
        self._version = next(self._versions)
        kind = "MODIFIED" if path in self.objects else "ADDED"
        stored: Object = copied(obj)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        stored["metadata"].setdefault("name", path.rpartition("/")[2])
        stored["metadata"].setdefault("uid", f"uid-{self._version}")
        self.objects[path] = stored
        self._record(kind, path, stored)
        return stored

    def remove(self, path: str) -> Object:
        self._version = next(self._versions)
        gone: Object = copied(self.objects.pop(path))
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._record("DELETED", path, gone)
        return gone

    def bookmark(self) -> None:
        """Tell all watchers how far the server is."""
        for stream in self._streams:
            stream.put_nowait(self._bookmark())

    def cut(self, error: Exception | None = None) -> None:
        """Break all streams: with ConnectionLost, with another error, or (errors.Gone) with a line of type ERROR."""
        for stream in self._streams:
            if isinstance(error, errors.ApiError):
                stream.put_nowait(_line("ERROR", statuses.to_status(error)))
            stream.put_nowait(error or errors.ConnectionLost("cut"))

    def end(self) -> None:
        """End all streams as a server does when the agreed time is over."""
        for stream in self._streams:
            stream.put_nowait(END)

    def compact(self) -> None:
        """Forget the past."""
        self._oldest = self._version
        self._history.clear()

    @property
    def watchers(self) -> int:
        return len(self._streams)

    # The transport.

    async def request(self, request: Request) -> Answer:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self.down is not None:
            raise self.down
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Answer):
                return failure
            if not isinstance(failure, errors.ApiError):
                raise failure
            return _answer(failure.code, statuses.to_status(failure))
        try:
            return self._serve(request)
        except errors.ApiError as error:
            return _answer(error.code, statuses.to_status(error))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self.down is not None:
            raise self.down
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Exception):
                raise failure
        if "sendInitialEvents" in request.query and not self.initial_events:
            raise errors.Invalid("sendInitialEvents: Forbidden")
        stream: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._open(stream, request)
        self._streams.add(stream)
        try:
            yield _read(stream)
        finally:
            self._streams.discard(stream)
            self._listeners.pop(stream, None)

    def _open(self, stream: asyncio.Queue[bytes | Exception | None], request: Request) -> None:
        version = int(request.query.get("resourceVersion", "0"))
        self._listeners[stream] = request.path
        if "sendInitialEvents" in request.query:
            for obj in self._members(request.path):
                stream.put_nowait(_line("ADDED", obj))
            stream.put_nowait(self._bookmark(**{well_known.INITIAL_EVENTS_END: "true"}))
        elif version < self._oldest:
            gone = errors.Gone(f"too old resource version: {version} ({self._oldest})")
            stream.put_nowait(_line("ERROR", statuses.to_status(gone)))
        else:
            for at, kind, path, obj in self._history:
                if at > version and path.rpartition("/")[0] == request.path:
                    stream.put_nowait(_line(kind, obj))

    def _serve(self, request: Request) -> Answer:
        path = request.path
        body = msgspec.json.decode(request.body, type=dict) if request.body else {}
        match request.method:
            case "POST":
                return _answer(201, self._create(path, body))
            case "GET" if _is_collection(path):
                return _answer(200, self._list(request))
            case "GET":
                return _answer(200, self._find(path))
            case "PATCH":
                old = self._find(path)
                self._check_version(path, old, body.get("metadata", {}))
                new = merge_patch.apply(old, body)
                return _answer(200, old if new == old else self.put(path, new))
            case "DELETE":
                self._check_version(path, self._find(path), body.get("preconditions", {}))
                self.remove(path)
                return _answer(200, statuses.success("", "", path.rpartition("/")[2]))
        raise errors.MethodNotAllowed(f"{request.method} is not part of the fake")

    def _create(self, path: str, body: Object) -> Object:
        address = f"{path}/{body['metadata']['name']}"
        if address in self.objects:
            raise statuses.already_exists(path.rpartition("/")[2], "", body["metadata"]["name"])
        return self.put(address, body)

    def _list(self, request: Request) -> Object:
        members = self._members(request.path)
        start = int(request.query.get("continue", "0"))
        end = start + (int(request.query.get("limit", "0")) or len(members))
        metadata = {"resourceVersion": str(self._version)}
        if end < len(members):
            metadata["continue"] = str(end)
        return {"kind": "List", "metadata": metadata, "items": members[start:end]}

    def _find(self, path: str) -> Object:
        if path not in self.objects:
            raise statuses.not_found(path.split("/")[-2], "", path.rpartition("/")[2])
        return self.objects[path]

    def _check_version(self, path: str, old: Object, wanted: Object) -> None:
        for name in ("uid", "resourceVersion"):
            if wanted.get(name) not in (None, old["metadata"][name]):
                raise statuses.modified("", "", path.rpartition("/")[2])

    def _members(self, collection: str) -> list[Object]:
        return [obj for path, obj in self.objects.items() if path.rpartition("/")[0] == collection]

    def _record(self, kind: str, path: str, obj: Object) -> None:
        self._history.append((self._version, kind, path, obj))
        for stream, collection in self._listeners.items():
            if path.rpartition("/")[0] == collection:
                stream.put_nowait(_line(kind, obj))

    def _bookmark(self, **annotations: str) -> bytes:
        metadata: Object = {"resourceVersion": str(self._version)}
        if annotations:
            metadata["annotations"] = annotations
        return _line("BOOKMARK", {"kind": "Bookmark", "metadata": metadata})


async def _read(stream: asyncio.Queue[bytes | Exception | None]) -> AsyncIterator[bytes]:
    while (said := await stream.get()) is not END:
        if isinstance(said, Exception):
            raise said
        yield said


def _is_collection(path: str) -> bool:
    """Whether /api/v1/[namespaces/NS/]PLURAL ends with the plural: one part or three after the group's version."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return len(rest) in (1, 3)


def _answer(code: int, body: Any) -> Answer:
    return Answer(code=code, body=msgspec.json.encode(body))


def _line(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
