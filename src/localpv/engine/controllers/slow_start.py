"""Doing many like things to pods at once, carefully."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from localpv import errors

R = TypeVar("R")


async def in_growing_batches(tasks: Sequence[Callable[[], Awaitable[R]]]) -> list[R]:
    """Do first one, then two, then four at a time: what fails at all fails before there are many of it.

    The first error ends it, after the batch that it happened in.
    """
    done: list[R] = []
    size = 1
    while len(done) < len(tasks):
        batch = [task() for task in tasks[len(done) : len(done) + size]]
        results = await asyncio.gather(*batch, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
            done.append(result)
        size *= 2
    return done


def namespace_ends(error: errors.ApiError) -> bool:
    """Whether a refusal says that the namespace is on its way out: nothing will ever be made in it again."""
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
