"""Who leads, when it ends, and that two never lead at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from localpv import errors
from localpv.api.kinds.cluster import Lease
from localpv.client.client import Client
from localpv.client.lease import Election, Ended, Terms
from localpv.client.transport import Answer, Request
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/manager"


class Candidate:
    """A process that wants to lead; its own network can fail."""

    def __init__(self, api: FakeApi, clock: FakeClock, identity: str) -> None:
        self.api = api
        self.clock = clock
        self.identity = identity
        self.cut_off = False
        self.hangs = False
        self.spans: list[list[float]] = []
        """When it began to work and when it had stopped."""

        leases = Client(self, field_manager="test").objects(Lease)
        self.election = Election(
            leases, name="manager", namespace="kube-system", identity=identity, clock=clock, random=lambda: 0.0
        )

    async def request(self, request: Request) -> Answer:
        if self.cut_off:
            raise errors.ConnectionLost("cut off")
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        return await self.api.request(request)

    def stream(self, request: Request) -> Any:
        return self.api.stream(request)

    async def work(self) -> None:
        span = [self.clock.monotonic()]
        self.spans.append(span)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            span.append(self.clock.monotonic())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[Ended]]:
        task = asyncio.create_task(self.election.lead(self.work))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def holder(api: FakeApi) -> str | None:
    held: str | None = api.objects[LEASE]["spec"].get("holderIdentity")
    return held


async def test_first_candidate_makes_the_lease_and_leads(api: FakeApi, clock: FakeClock) -> None:
    one = Candidate(api, clock, "one")
    async with one.running():
        await clock.advance(0)
        assert one.election.leading
        assert api.objects[LEASE]["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2030-01-01T00:00:00.000000Z",
            "renewTime": "2030-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
        await clock.advance(2)
        assert api.objects[LEASE]["spec"]["renewTime"] == "2030-01-01T00:00:02.000000Z"
        assert api.objects[LEASE]["spec"]["acquireTime"] == "2030-01-01T00:00:00.000000Z"


async def test_second_candidate_waits_as_long_as_the_first_renews(api: FakeApi, clock: FakeClock) -> None:
    one, two = Candidate(api, clock, "one"), Candidate(api, clock, "two")
    async with one.running():
        await clock.advance(1)
        async with two.running():
            await clock.advance(120)
            assert one.election.leading
            assert two.spans == []
            assert two.election.leader == "one"


async def test_stopped_leader_hands_the_lease_over_at_once(api: FakeApi, clock: FakeClock) -> None:
    one, two = Candidate(api, clock, "one"), Candidate(api, clock, "two")
    async with contextlib.AsyncExitStack() as later:
        async with one.running():
            await clock.advance(1)
            await later.enter_async_context(two.running())
            await clock.advance(1)
        assert holder(api) is None
        await clock.advance(2)
        assert holder(api) == "two"
        assert api.objects[LEASE]["spec"]["leaseTransitions"] == 1


async def test_leader_that_is_stopped_while_it_renews_still_hands_over(api: FakeApi, clock: FakeClock) -> None:
    one = Candidate(api, clock, "one")
    async with one.running():
        await clock.advance(1)
        renewed = api.objects[LEASE]
        # The server has taken a renewal whose answer never arrived.
        api.put(LEASE, renewed | {"spec": renewed["spec"] | {"renewTime": "2030-01-01T00:00:01.000000Z"}})
    assert holder(api) is None


async def test_leader_without_a_network_stops_before_the_next_one_begins(api: FakeApi, clock: FakeClock) -> None:
    one, two = Candidate(api, clock, "one"), Candidate(api, clock, "two")
    async with one.running() as leading:
        await clock.advance(1)
        async with two.running():
            await clock.advance(1)
            one.cut_off = True
            await clock.advance(60)
            assert await leading is Ended.LOST
            assert not one.election.leading
            assert two.election.leading
            ((_, stopped),) = one.spans
            assert stopped <= 2 + 10
            assert stopped < two.spans[0][0] <= 2 + 15 + 2


async def test_answer_that_never_comes_costs_the_lease_as_well(api: FakeApi, clock: FakeClock) -> None:
    one = Candidate(api, clock, "one")
    async with one.running() as leading:
        await clock.advance(1)
        one.hangs = True
        await clock.advance(10)
        assert leading.done() and leading.result() is Ended.LOST


async def test_short_trouble_does_not_end_a_leader(api: FakeApi, clock: FakeClock) -> None:
    one = Candidate(api, clock, "one")
    async with one.running():
        await clock.advance(1)
        one.cut_off = True
        await clock.advance(6)
        one.cut_off = False
        await clock.advance(30)
        assert one.election.leading
        assert len(one.spans) == 1


async def test_lease_taken_by_another_ends_a_leader_at_once(api: FakeApi, clock: FakeClock) -> None:
    one = Candidate(api, clock, "one")
    async with one.running() as leading:
        await clock.advance(1)
        taken = dict(api.objects[LEASE])
        taken["spec"] = taken["spec"] | {"holderIdentity": "thief", "renewTime": "2030-01-01T00:00:01.000000Z"}
        api.put(LEASE, taken)
        await clock.advance(2)
        assert leading.result() is Ended.LOST
        assert holder(api) == "thief"


async def test_of_two_that_start_together_one_leads(api: FakeApi, clock: FakeClock) -> None:
    candidates = [Candidate(api, clock, name) for name in ("one", "two")]
    async with candidates[0].running(), candidates[1].running():
        await clock.advance(30)
        assert [candidate.election.leading for candidate in candidates].count(True) == 1


async def test_restarted_process_takes_its_own_lease_back(api: FakeApi, clock: FakeClock) -> None:
    api.put(
        LEASE,
        {
            "metadata": {"namespace": "kube-system"},
            "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 4},
        },
    )
    one = Candidate(api, clock, "one")
    async with one.running():
        await clock.advance(0)
        assert one.election.leading
        assert api.objects[LEASE]["spec"]["leaseTransitions"] == 4


async def test_finished_work_frees_the_lease_and_its_error_is_raised(api: FakeApi, clock: FakeClock) -> None:
    one = Candidate(api, clock, "one")

    async def nothing() -> None: ...

    async def broken() -> None:
        raise ZeroDivisionError

    assert await one.election.lead(nothing) is Ended.FINISHED
    assert holder(api) is None
    with pytest.raises(ZeroDivisionError):
        await one.election.lead(broken)
    assert holder(api) is None


async def test_fields_that_others_put_on_the_lease_stay(api: FakeApi, clock: FakeClock) -> None:
    api.put(LEASE, {"metadata": {"labels": {"team": "storage"}}, "spec": {"strategy": "OldestEmulationVersion"}})
    one = Candidate(api, clock, "one")
    async with one.running():
        await clock.advance(5)
    assert api.objects[LEASE]["metadata"]["labels"] == {"team": "storage"}
    assert api.objects[LEASE]["spec"]["strategy"] == "OldestEmulationVersion"


def test_times_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="do not fit"):
        Terms(lease_duration=10, renew_deadline=10, retry_period=2)
