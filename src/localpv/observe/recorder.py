"""Where a program says what happened, once: people read it in events, shown by `kubectl describe`.

Who counts it besides says it through a recorder that knows more: `discovery`, `cleaning` and `publishing` have a method
for each thing that happens there, which is heard as an event, as a metric and in the log. What is the same as last time
is not said again: that is remembered here.

At the API server the same happening to the same object counts up in one event, also after a restart. Telling never
waits: what was told is written by `run`. At most as many as `MOST_WAITING` different ones wait to be written; beyond,
the oldest is dropped: an event is a courtesy, and never worth holding up a disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass

from localpv import errors
from localpv.api.kinds.cluster import Event, EventSource, ObjectReference
from localpv.api.kinds.meta import Kind, ObjectMeta, write_time
from localpv.client.client import Client
from localpv.runtime.clock import Clock

NORMAL = "Normal"
WARNING = "Warning"
NAMESPACE = "default"
"""Where events about objects without a namespace are."""

MOST_WAITING = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What an event says."""

    reason: str
    message: str
    warning: bool = False


class Recorder:
    """Passes on what it is told to another recorder; without one nobody hears it."""

    def __init__(self, to: Recorder | None = None) -> None:
        self._to = to
        self._last: dict[str, object] = {}

    def pass_on_to(self, to: Recorder) -> None:
        """Another one hears what is told from now on."""
        self._to = to

    def event(self, about: Kind, reason: str, message: str, *, warning: bool = False, part: str = "") -> None:
        """Something happened to an object. `part` is the path of the field that it is about, such as one container of
        a pod; each counts by itself. Never waits."""
        if self._to is not None:
            self._to.event(about, reason, message, warning=warning, part=part)

    def event_once(self, about: Kind, *notices: Notice) -> None:
        """The same, unless it was said last of this object."""
        # Another object of the same name has heard nothing yet.
        if self.is_news(about.key, (about.metadata.uid, notices)):
            for notice in notices:
                self.event(about, notice.reason, notice.message, warning=notice.warning)

    def is_news(self, key: str, what: object) -> bool:
        """Whether something else was said last under this key; remembered from now on."""
        if key in self._last and self._last[key] == what:
            return False
        self._last[key] = what
        return True

    def was_told(self, about: Kind) -> bool:
        """Whether something was said of this very object last."""
        match self._last.get(about.key):
            case (uid, _):
                return bool(uid == about.metadata.uid)
        return False

    def forget(self, key: str) -> None:
        """What was said before says nothing about what comes now."""
        self._last.pop(key, None)

    def forget_all(self) -> None:
        """Others may have said something else meanwhile."""
        self._last.clear()

    async def run(self) -> None:
        """Write what was said until cancelled."""
        if self._to is not None:
            await self._to.run()
        else:
            await asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class _Told:
    about: ObjectReference
    reason: str
    message: str
    type: str
    times: int = 1


class ApiRecorder(Recorder):
    """Says it at an API server. Somebody must own the task of `run`."""

    def __init__(self, client: Client, *, component: str, clock: Clock) -> None:
        super().__init__()
        self._objects = client.objects(Event)
        self._component = component
        self._clock = clock
        self._waiting: dict[str, _Told] = {}
        self._counts: dict[str, int] = {}
        """How often each of the last ones was told."""

        self._something = asyncio.Event()

    def event(self, about: Kind, reason: str, message: str, *, warning: bool = False, part: str = "") -> None:
        reference = _reference(about, part)
        name = _name(reference, reason)
        told = self._waiting.pop(name, None)
        times = told.times + 1 if told else 1
        self._waiting[name] = _Told(reference, reason, message, WARNING if warning else NORMAL, times)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting)))
        self._something.set()

    async def run(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                name = next(iter(self._waiting))
                told = self._waiting.pop(name)
                try:
                    await self._write(name, told)
                except errors.LocalpvError as error:
                    log.warning("event not written object=%s reason=%s error=%s", told.about.name, told.reason, error)

    async def _write(self, name: str, told: _Told) -> None:
        # Without reading first: nobody needs the right to read events in order to tell.
        now = write_time(self._clock.now())[:19] + "Z"
        if name not in self._counts:
            try:
                await self._create(name, told, now)
                self._remember(name, told.times)
                return
            except errors.AlreadyExists:
                pass  # told before we were started
        namespace = told.about.namespace or NAMESPACE
        patch = {"lastTimestamp": now, "message": told.message, "type": told.type}
        known = self._counts.get(name)
        try:
            if known is None:
                known = (await self._objects.patch(name, patch, namespace)).count
            await self._objects.patch(name, patch | {"count": known + told.times}, namespace)
            self._remember(name, known + told.times)
        except errors.NotFound:
            # Servers forget events after a while.
            self._counts.pop(name, None)
            await self._create(name, told, now)
            self._remember(name, told.times)

    def _remember(self, name: str, count: int) -> None:
        self._counts.pop(name, None)
        self._counts[name] = count
        if len(self._counts) > MOST_WAITING:
            self._counts.pop(next(iter(self._counts)))

    async def _create(self, name: str, told: _Told, now: str) -> None:
        await self._objects.create(
            Event(
                metadata=ObjectMeta(name=name, namespace=told.about.namespace or NAMESPACE),
                involved_object=told.about,
                reason=told.reason,
                message=told.message,
                type=told.type,
                source=EventSource(component=self._component),
                reporting_component=self._component,
                count=told.times,
                first_timestamp=now,
                last_timestamp=now,
            )
        )


def _reference(about: Kind, part: str) -> ObjectReference:
    meta = about.metadata
    return ObjectReference(
        kind=about.resource.kind,
        api_version=about.resource.api_version,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        field_path=part,
    )


def _name(about: ObjectReference, reason: str) -> str:
    words = (about.kind, about.uid, reason, *filter(None, (about.field_path,)))
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    return f"{about.name[:230].rstrip('-.')}.{digest}"
