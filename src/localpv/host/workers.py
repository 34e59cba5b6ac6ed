"""Calls that a bad disk can hang, each in a thread with a time limit.

A thread that sits in the kernel cannot be stopped, only left behind. So that a dead disk costs one thread and not one
more at every look, calls carry a key (the disk or folder): while a call for a key is stuck, the next one for the same
key fails at once. A thread left behind gives its place back, so any number of dead disks delays nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from localpv import errors
from localpv.host import mountcalls
from localpv.host.model import methods

T = TypeVar("T")

AT_ONCE = 16
"""Calls that run at the same time; more wait. Python threads cost about 0.1 MB each."""

STOP_SECONDS = 10.0
"""How long a cancelled long job may take to reach its next chunk before it is left behind."""

IDLE_SECONDS = 2.0
"""A thread that had nothing to do for so long ends."""

REPORT_SECONDS = 0.1
"""Progress is told at most this often."""


class Workers:
    """Runs calls in threads. One per process is enough."""

    def __init__(self, *, at_once: int = AT_ONCE) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._stuck: dict[str, int] = {}
        self._threads = _Threads()

    def stuck(self) -> tuple[str, ...]:
        """Keys whose call was left behind and has not come back."""
        return tuple(self._stuck)

    async def call(self, function: Callable[[], T], *, key: str, timeout: float) -> T:  # noqa: ASYNC109
        """Run a short call; HostTimeout when it takes longer, and at once while an earlier one is still stuck."""
        self.refuse_stuck(key)
        async with self._places:
            self.refuse_stuck(key)
            done = self._threads.start(function, name=f"host {key}")
            try:
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the result.
                async with asyncio.timeout(timeout):
                    return await asyncio.shield(done)
            except TimeoutError as error:
                if done.done() and not done.cancelled() and done.exception() is error:
                    raise
                self._leave_behind(key, done)
                raise errors.HostTimeout(
                    f"{key} gave no answer in {timeout:g} s", hint="look at the kernel log for errors of that disk"
                ) from None
            except asyncio.CancelledError:
                self._leave_behind(key, done)
                raise

    async def long(self, function: Callable[[Control], T], *, key: str, on_progress: Report | None = None) -> T:
        """Run a job without a limit that watches its Control; a cancelled caller waits until the job has stopped."""
        self.refuse_stuck(key)
        control = Control(asyncio.get_running_loop(), on_progress)
        done = self._threads.start(lambda: function(control), name=f"host {key}")
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            control.cancel()
            # Not to return while it still writes: who cancelled may hand the disk to somebody else now.
            await asyncio.wait({done}, timeout=STOP_SECONDS)
            self._leave_behind(key, done)
            raise

    def refuse_stuck(self, key: str) -> None:
        if key in self._stuck:
            raise errors.HostTimeout(
                f"an earlier call for {key} still hangs in the kernel", hint="look at the kernel log for that disk"
            )

    def _leave_behind(self, key: str, done: asyncio.Future[Any]) -> None:
        if done.done():
            if not done.cancelled():
                done.exception()  # it was read: nobody is told about it, for nobody waits any more
            return
        self._stuck[key] = self._stuck.get(key, 0) + 1

        def came_back(future: asyncio.Future[Any]) -> None:
            if not future.cancelled():
                future.exception()
            self._stuck[key] -= 1
            if not self._stuck[key]:
                del self._stuck[key]

        done.add_done_callback(came_back)


Report = Callable[[methods.Progress], None]


class Cancelled(Exception):
    """A job saw that its caller was cancelled."""


class Control:
    """What a long job sees of its caller: whether to go on, and where to tell how far it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, on_progress: Report | None = None) -> None:
        self._cancelled = threading.Event()
        self._loop = loop
        self._on_progress = on_progress
        self._next_report = 0.0

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Raise Cancelled when the caller has gone. Called before each chunk."""
        if self._cancelled.is_set():
            raise Cancelled

    def report(self, done: int, total: int = 0, step: str = "", *, last: bool = False) -> None:
        """Tell how far the job is; the callback runs in the caller's event loop. Also checks whether to go on."""
        self.check()
        now = time.monotonic()
        if self._on_progress is None or self._loop is None or (now < self._next_report and not last):
            return
        self._next_report = now + REPORT_SECONDS
        self._loop.call_soon_threadsafe(self._on_progress, methods.Progress(done=done, total=total, step=step))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, such as a command, in the caller's event loop and wait for it here in the thread."""
        assert self._loop is not None
        ended = threading.Event()

        async def run_to_the_end() -> T:
            try:
                return await coroutine
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(run_to_the_end(), self._loop)
        while not ended.wait(0.05):
            if self._cancelled.is_set():
                future.cancel()
                # Only when the command is gone may the caller hear that the job has stopped.
                ended.wait(STOP_SECONDS)
                raise Cancelled
        return future.result(timeout=STOP_SECONDS)


class _Threads:
    """Threads for calls. One that is done waits a moment for the next call: to start one holds the event loop up."""

    def __init__(self) -> None:
        self._idle: deque[_Inbox] = deque()

    def start(self, function: Callable[[], T], *, name: str) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            threading.current_thread().name = name
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
                loop.call_soon_threadsafe(finish, result, error)

        try:
            self._idle.pop().put(run)
        except IndexError:
            inbox: _Inbox = SimpleQueue()
            inbox.put(run)
            # A daemon: a thread that hangs on a dead disk must not keep the process from ending.
            threading.Thread(target=self._serve, args=(inbox,), daemon=True).start()
        return done

    def _serve(self, inbox: _Inbox) -> None:
        while True:
            try:
                run = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:
                    continue  # a call has taken this thread in the same moment
                return
            run()
            del run  # with all that the call was about
            if mountcalls.has_own_namespaces():
                return  # what is done next would be done in there
            self._idle.append(inbox)


_Inbox: TypeAlias = SimpleQueue[Callable[[], None]]
