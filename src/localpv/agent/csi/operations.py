"""One call at a time for each volume, and none that stops halfway because its caller has lost patience.

What a call began goes on to its end; who asks again waits for that a moment, and is then told ABORTED, which callers
of CSI take for: still running.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from localpv import errors
from localpv.csi.status import Code, RpcError

log = logging.getLogger(__name__)

T = TypeVar("T")

WAIT_SECONDS: Final = 5.0
"""How long a call waits for the one before it."""

MAX_OPERATIONS: Final = 256
"""That run at the same time, those whose callers have gone among them."""


class Operations:
    """The calls that run."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Any]] = {}

    async def run(self, key: str, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something about a volume when nothing else is done about it."""
        until = asyncio.get_running_loop().time() + WAIT_SECONDS
        while (before := self._running.get(key)) is not None:
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                raise RpcError(Code.ABORTED, f"an operation for {key} is still running")
            await asyncio.wait({before}, timeout=left)
        if len(self._running) >= MAX_OPERATIONS:
            raise RpcError(Code.UNAVAILABLE, f"{MAX_OPERATIONS} operations are running")
        task = asyncio.get_running_loop().create_task(_translated(operation()), name=f"csi {key}")
        self._running[key] = task

        def ended(task: asyncio.Task[T]) -> None:
            del self._running[key]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.debug("csi operation failed key=%s error=%s", key, error)

        task.add_done_callback(ended)
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """Cancel what runs, and wait until it has stopped."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


async def _translated(operation: Coroutine[Any, Any, T]) -> T:
    """Errors of the machine in the words of CSI."""
    try:
        return await operation
    except errors.HostError as error:
        raise RpcError(_code(error), " ".join(filter(None, (error.message, error.hint)))) from error
    except OSError as error:
        raise RpcError(Code.INTERNAL, f"{error.filename or 'the system'}: {error.strerror}") from error


def _code(error: errors.HostError) -> Code:
    match error:
        case errors.NoRoom():
            return Code.RESOURCE_EXHAUSTED
        case errors.AlreadyThere():
            return Code.ALREADY_EXISTS
        case errors.NotThere():
            return Code.NOT_FOUND
        case errors.StillNeeded() | errors.DeviceBusy() | errors.NotClean() | errors.DeviceChanged():
            return Code.FAILED_PRECONDITION
        case errors.NotSupported() | errors.OutsideFolder():
            return Code.INVALID_ARGUMENT
        case errors.HostTimeout():
            return Code.UNAVAILABLE
    return Code.INTERNAL
