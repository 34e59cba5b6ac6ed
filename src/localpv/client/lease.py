"""Leader election: of many candidates one works, and says so in a Lease.

Whether another's lease has run out is judged by our own clock from the moment we saw it change, so the clocks of the
machines need not agree. The leader stops working when it could not renew for `renew_deadline`, which is before anybody
else may begin (`lease_duration`).
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from localpv import errors
from localpv.api.kinds.cluster import Lease, LeaseSpec
from localpv.api.kinds.meta import ObjectMeta, write_time
from localpv.client.objects import Objects
from localpv.runtime.clock import Clock, deadline

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The times of an election in seconds; the same for all candidates."""

    lease_duration: float = 15.0
    """How long the others wait after the last renewal before they take over."""

    renew_deadline: float = 10.0
    """How long a leader goes on without a renewal; the rest of the duration is for its work to stop."""

    retry_period: float = 2.0
    """How often a leader renews and a candidate looks."""

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise errors.ConfigurationError(
                f"the times of a lease do not fit: duration {self.lease_duration:g} s, deadline "
                f"{self.renew_deadline:g} s, retry {self.retry_period:g} s",
                hint="duration must be longer than deadline, and deadline longer than retry",
            )


class Ended(enum.Enum):
    """Why leading is over."""

    FINISHED = "the work was done"
    LOST = "the lease could not be kept"


class Election:
    """One candidate for one lease."""

    RELEASE_SECONDS = 3.0
    """How long a stop may take to hand the lease back; the others notice by themselves otherwise."""

    def __init__(
        self,
        leases: Objects[Lease],
        *,
        name: str,
        namespace: str,
        identity: str,
        clock: Clock,
        terms: Terms | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._leases = leases
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._terms = terms or Terms()
        self._random = random
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._leading = False

    @property
    def leading(self) -> bool:
        return self._leading

    @property
    def leader(self) -> str:
        """Who led when we last looked; empty when nobody did."""
        return (self._seen.spec.holder_identity or "") if self._seen else ""

    async def lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Ended:
        """Wait to become the leader, then do the work for as long as the lease lasts.

        When the lease is lost the work is cancelled, and this returns only after it has stopped; call again to be a
        candidate again. An error of the work is raised after the lease is handed back.
        """
        await self._acquire()
        working = asyncio.create_task(work(), name=f"leader of {self._name}")
        renewing = asyncio.create_task(self._keep(), name=f"lease {self._name}")
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                return Ended.FINISHED
            renewing.result()
            return Ended.LOST
        finally:
            # The lease outlasts the work: it is renewed while the work winds up.
            await _stop(working)
            await _stop(renewing)
            if self._leading:
                await self._release()

    async def _acquire(self) -> None:
        while not await self._try(self._clock.monotonic() + self._terms.renew_deadline):
            await self._clock.sleep(self._pause())
        self._leading = True
        log.info("leads lease=%s/%s identity=%s", self._namespace, self._name, self._identity)

    async def _keep(self) -> None:
        """Renew until that fails for too long or another one leads."""
        renewed = self._seen_at
        while True:
            await self._clock.sleep(self._terms.retry_period)
            asked = self._clock.monotonic()
            until = renewed + self._terms.renew_deadline
            if asked < until and await self._try(until):
                renewed = asked
            elif self._clock.monotonic() >= until or self.leader not in ("", self._identity):
                self._leading = False
                log.warning("lost lease=%s/%s leader=%s", self._namespace, self._name, self.leader)
                return

    async def _try(self, until: float) -> bool:
        """Take or renew the lease if it is free or ours."""
        try:
            async with deadline(until - self._clock.monotonic(), clock=self._clock):
                return await self._take()
        except (errors.AlreadyExists, errors.Conflict):
            # Somebody was quicker.
            return False
        except errors.LocalpvError as error:
            log.warning("no lease=%s/%s reason=%s", self._namespace, self._name, error)
            return False
        except TimeoutError:
            log.warning("no lease=%s/%s reason=no answer", self._namespace, self._name)
            return False

    async def _take(self) -> bool:
        asked = self._clock.monotonic()
        lease = await self._leases.find(self._name, self._namespace)
        moment = write_time(self._clock.now())
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._terms.lease_duration),
            "renewTime": moment,
        }
        if lease is None:
            made = Lease(
                metadata=ObjectMeta(name=self._name, namespace=self._namespace),
                spec=LeaseSpec(
                    holder_identity=self._identity,
                    lease_duration_seconds=spec["leaseDurationSeconds"],
                    acquire_time=moment,
                    renew_time=moment,
                    lease_transitions=0,
                ),
            )
            self._note(await self._leases.create(made), at=asked)
            return True
        if self._seen is None or lease.spec != self._seen.spec:
            self._note(lease, at=self._clock.monotonic())
        if lease.spec.holder_identity != self._identity:
            if lease.spec.holder_identity and self._clock.monotonic() < self._seen_at + _duration(lease, self._terms):
                return False
            spec |= {"acquireTime": moment, "leaseTransitions": (lease.spec.lease_transitions or 0) + 1}
        patch = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        self._note(await self._leases.patch(self._name, patch, self._namespace), at=asked)
        return True

    async def _release(self) -> None:
        """Let the next one begin at once."""
        self._leading = False
        # When this fails the others see the lease run out: later, but as safe.
        with suppress(errors.LocalpvError, TimeoutError):
            async with deadline(self.RELEASE_SECONDS, clock=self._clock):
                # Read again: a renewal that was cancelled on its way may have reached the server.
                lease = await self._leases.get(self._name, self._namespace)
                if lease.spec.holder_identity != self._identity:
                    return
                patch = {
                    "metadata": {"resourceVersion": lease.metadata.resource_version},
                    "spec": {
                        "holderIdentity": None,
                        "leaseDurationSeconds": 1,
                        "renewTime": write_time(self._clock.now()),
                    },
                }
                await self._leases.patch(self._name, patch, self._namespace)
                log.info("released lease=%s/%s", self._namespace, self._name)

    def _note(self, lease: Lease, *, at: float) -> None:
        self._seen, self._seen_at = lease, at

    def _pause(self) -> float:
        return self._terms.retry_period * (1 + 1.2 * self._random())


def _duration(lease: Lease, terms: Terms) -> float:
    """How long the holder said it leads; its terms may not be ours."""
    return float(lease.spec.lease_duration_seconds or terms.lease_duration)


async def _stop(task: asyncio.Task[None]) -> None:
    """End a task and wait for it; how it ended is of no interest any more."""
    if task.done():
        # Its error, if any, has been raised or is replaced by the one that stops us.
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("failed while it stopped task=%s", task.get_name(), exc_info=error)
