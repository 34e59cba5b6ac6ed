"""Which of several agents works on a node: exactly one at any moment.

Records of a node have one writer, which judges all of its disks together. So whoever works has a lock on a file of the
host; the kernel takes it back from a process that dies, however it dies, and another one goes on where that one was.

An agent with a ConfigMap comes first. It has a second lock for as long as it lives, and agents of LocalStorages, which
serve the same classes of LocalStorages but not those of the ConfigMap, stand by while somebody has that one.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from localpv import errors
from localpv.runtime.clock import Clock

log = logging.getLogger(__name__)

WORKING, FIRST = "agent.lock", "agent-main.lock"

LOOK_EVERY = 0.5
"""Seconds between two looks at the locks: the kernel tells nobody when one becomes free."""

STOP_SECONDS = 60.0
"""How long parts may take to stop when another agent comes first. Each is given ten seconds; what does not stop by then
is ended with the process, for the lock must not go to another while anything here still writes."""


class NodeLock:
    """The locks of one node, for one agent."""

    def __init__(self, folder: Path, *, first: bool, clock: Clock) -> None:
        """`first` is an agent that others make room for."""
        self._folder, self._first, self._clock = folder, first, clock
        self._said = ""
        self.working = False

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Work whenever it is this agent's turn, until cancelled; raises what the work raises."""
        if self._first:
            own = await self._have(FIRST, "another agent with a ConfigMap")
            try:
                await self._work_once(work)
            finally:
                if own is not None:
                    os.close(own)
            return
        while True:
            while self._others_come_first():
                self._say("this node has an agent with a ConfigMap")
                await self._clock.sleep(LOOK_EVERY)
            await self._work_once(work)

    async def _work_once(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Work for as long as it is our turn."""
        own = await self._have(WORKING, "another agent", give_way=not self._first)
        if own is None:
            return
        log.info("works on this node")
        self._said, self.working = "", True
        working = asyncio.create_task(work())
        others_come = False
        try:
            while not working.done() and (self._first or not self._others_come_first()):
                await asyncio.wait({working}, timeout=LOOK_EVERY)
            if working.done():
                return working.result()
            others_come = True
        finally:
            self.working = False
            await self._stop(working)
            if others_come:
                log.info("makes room for the agent with a ConfigMap")
            os.close(own)

    async def _stop(self, working: asyncio.Task[None]) -> None:
        working.cancel()
        await asyncio.wait({working}, timeout=STOP_SECONDS)
        if not working.done():
            raise errors.StartError("parts that work on this node do not stop", hint="the process ends instead")
        if not working.cancelled() and (error := working.exception()) is not None:
            raise error

    async def _have(self, name: str, who: str, *, give_way: bool = False) -> int | None:
        """Wait for a lock and take it; None when somebody came first meanwhile, for those who give way."""
        fd = self._open(name)
        try:
            while True:
                has = _take(fd, fcntl.LOCK_EX)
                if give_way and self._others_come_first():
                    os.close(fd)
                    return None
                if has:
                    return fd
                self._say(f"{who} has {self._folder / name}")
                await self._clock.sleep(LOOK_EVERY)
        except BaseException:
            os.close(fd)
            raise

    def _others_come_first(self) -> bool:
        fd = self._open(FIRST)
        try:
            # Shared: those who only look do not take each other for the one who has it.
            return not _take(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def _open(self, name: str) -> int:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise errors.StoreError(f"no lock can be taken in {self._folder}: {error.strerror}") from error

    def _say(self, why: str) -> None:
        if why != self._said:
            log.info("stands by reason=%s", why)
            self._said = why


def _take(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
