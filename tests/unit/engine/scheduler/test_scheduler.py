"""The scheduler at a real server: what it does when it dies, when writes fail, and when nobody binds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.engine.scheduler.town import Meddling, Town

from localpv import errors
from localpv.api import status as statuses
from localpv.api import well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client.transport import Answer, Request
from localpv.engine.scheduler import schedule_one
from localpv.engine.scheduler.bind_cycle import BIND_SECONDS
from localpv.engine.scheduler.pod_info import PodInfo
from localpv.engine.scheduler.schedule_one import Chosen, NoNode
from localpv.testing.clock import FakeClock


def conflict() -> Answer:
    return Answer(code=409, body=msgspec.json.encode(statuses.to_status(errors.Conflict("somebody was faster"))))


async def two_pods_with_three_claims(town: Town) -> None:
    one, two = await town.node("one"), await town.node("two")
    await town.storage_class()
    for name, node in (("a", one), ("b", two), ("c", two), ("d", two)):
        await town.disk(name, node)
    for name in ("x", "y", "z"):
        await town.claim(name)
    await town.pod("both", "x", "y")
    await town.pod("single", "z")


async def everything_is_where_it_should_be(town: Town) -> None:
    """Every pod has a node, every claim a volume of its own there, and no volume is lost."""
    used: dict[str, str] = {}
    for name, claims in (("both", "xy"), ("single", "z")):
        node = await town.until_node(name)
        for claim in claims:
            bound = await town.get_claim(claim)
            assert bound.status.phase == "Bound"
            assert bound.spec.volume_name not in used
            used[bound.spec.volume_name] = claim
            on = node.removeprefix(f"{town.name}-")
            assert bound.spec.volume_name[-1] in {"one": "a", "two": "bcd"}[on]
    for disk in "abcd":
        full = f"{town.name}-{disk}"
        assert await town.holder(full) == used.get(full, "")


async def one_disk(town: Town) -> tuple[str, str]:
    """A node with a disk, and claim x that could have it."""
    node = await town.node("one")
    await town.storage_class()
    disk = await town.disk("a", node)
    await town.claim("x")
    return node, disk


@pytest.mark.seed("AFF-5")
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("after", [False, True], ids=["before-the-write", "after-the-write"])
async def test_whenever_the_scheduler_dies_the_next_one_goes_on(town: Town, number: int, after: bool) -> None:
    await two_pods_with_three_claims(town)
    async with town.binder():
        meddling = Meddling(town.transport)
        meddling.die_at, meddling.dies_after = number, after
        async with town.scheduler(meddling):
            await town.until(meddling.died.is_set, f"write {number} is tried")
        async with town.scheduler():
            await everything_is_where_it_should_be(town)


async def test_a_binder_that_starts_late_finds_what_was_reserved(town: Town) -> None:
    await two_pods_with_three_claims(town)
    meddling = Meddling(town.transport)
    async with town.scheduler(meddling):
        await town.until_reserved(3)
        assert not (await town.get_pod("both")).spec.node_name
        async with town.binder():
            await everything_is_where_it_should_be(town)


async def test_volumes_are_given_back_when_nobody_binds_them(town: Town) -> None:
    _, disk = await one_disk(town)
    await town.pod("pod", "x")
    clock = FakeClock()
    async with town.scheduler(clock=clock):
        await town.until_held(disk, "x")
        await clock.advance(BIND_SECONDS)
        await town.until_held(disk, "")
    assert not (await town.get_pod("pod")).spec.node_name


async def test_what_is_bound_by_then_stays_bound(town: Town) -> None:
    node = await town.node("one")
    await town.storage_class()
    disks = [await town.disk(name, node) for name in "ab"]
    for name in "xy":
        await town.claim(name)
    await town.pod("pod", "x", "y")
    clock = FakeClock()
    async with town.scheduler(clock=clock):
        await town.until_reserved(2)
        held = {await town.holder(disk): disk for disk in disks}
        # The binder gets as far as the volume, and dies before it comes to the claim.
        volumes = town.client.objects(PersistentVolume)
        await volumes.patch(held["x"], {"status": {"phase": "Bound"}}, subresource="status")
        await clock.advance(BIND_SECONDS)
        await town.until_held(held["y"], "")
        assert await town.holder(held["x"]) == "x"


async def test_a_volume_that_cannot_be_reserved_takes_the_others_along(town: Town) -> None:
    node = await town.node("one")
    await town.storage_class()
    disks = [await town.disk(name, node) for name in "ab"]
    for name in "xy":
        await town.claim(name)
    await town.pod("pod", "x", "y")
    meddling = Meddling(town.transport)
    meddling.fate = lambda request, number: conflict() if number == 1 else None
    async with town.scheduler(meddling, clock=FakeClock()):
        # Two reservations, of which one fails, and one that takes the other back.
        await town.until(lambda: len(meddling.writes) >= 3, "the first is freed")
        for disk in disks:
            await town.until_held(disk, "")


async def test_after_a_conflict_the_pod_is_tried_again(town: Town) -> None:
    await two_pods_with_three_claims(town)
    meddling = Meddling(town.transport)
    meddling.fate = lambda request, number: conflict() if number < 4 else None
    async with town.binder(), town.scheduler(meddling):
        await everything_is_where_it_should_be(town)


async def test_a_server_that_is_away_for_a_while_loses_nothing(town: Town) -> None:
    await two_pods_with_three_claims(town)
    meddling = Meddling(town.transport)
    lost = errors.ConnectionLost("cut")
    meddling.fate = lambda request, number: lost if number % 2 == 0 and number < 12 else None
    async with town.binder(), town.scheduler(meddling):
        await everything_is_where_it_should_be(town)


async def test_an_answer_that_gets_lost_does_not_give_a_pod_two_nodes(town: Town) -> None:
    node = await town.node("one")
    await town.pod("pod")

    class Forgetful(Meddling):
        async def request(self, request: Request) -> Answer:
            answer = await super().request(request)
            if request.path.endswith("/binding") and len(self.writes) == 1:
                raise errors.ConnectionLost("the answer got lost")
            return answer

    async with town.scheduler(Forgetful(town.transport)) as scheduler:
        assert await town.until_node("pod") == node
        node_infos = scheduler.listers.node_infos
        await town.until(lambda: len(node_infos.get(node).pods) == 1, "the pod is counted once")  # type: ignore[union-attr]


async def test_pods_of_one_claim_share_its_volume_and_what_becomes_of_it(town: Town) -> None:
    node, disk = await one_disk(town)
    pods = [await town.pod(f"pod-{number}", "x") for number in range(3)]
    meddling = Meddling(town.transport)
    async with town.scheduler(meddling):
        await town.until_held(disk, "x")
        # The first one goes: the volume is given back, and the others have it reserved anew.
        await town.client.objects(Pod).delete(pods[0], town.name)
        async with town.binder():
            assert [await town.until_node(pod) for pod in pods[1:]] == [node, node]
    assert await town.holder(disk) == "x"


async def test_one_of_several_pods_of_a_claim_writes_for_all(town: Town) -> None:
    node, disk = await one_disk(town)
    for number in range(5):
        await town.pod(f"pod-{number}", "x")
    meddling = Meddling(town.transport)
    async with town.binder(), town.scheduler(meddling):
        for number in range(5):
            assert await town.until_node(f"pod-{number}") == node
    assert await town.holder(disk) == "x"
    assert sum("/persistentvolumes/" in each.path for each in meddling.writes) == 1


@pytest.mark.seed("LVD-5", "LVD-6", "SCH-3")
async def test_pods_of_claims_that_stay_together_go_where_their_volumes_are(town: Town) -> None:
    one, two = await town.node("one"), await town.node("two")
    await town.storage_class()
    await town.disk("a", one)
    for name in "bc":
        await town.disk(name, two)
    group = {"volume.beta.kubernetes.io/group": '{"name": "pair", "count": 2}'}
    await town.claim("x", **group)
    await town.pod("first", "x")
    async with town.binder(), town.scheduler():
        # While the group is not complete nobody chooses for it, though there are volumes.
        await town.until_refused("first", "didn't find available persistent volumes to bind")
        await town.claim("y", **group)
        await town.pod("second", "y")
        assert [await town.until_node(name) for name in ("first", "second")] == [two, two]


@pytest.mark.seed("SCH-4")
async def test_pods_of_claims_that_stay_apart_go_to_different_nodes(town: Town) -> None:
    one, two = await town.node("one"), await town.node("two")
    await town.storage_class()
    for name, node in (("a", one), ("b", one), ("c", two)):
        await town.disk(name, node)
    apart = {"localpv.dev/spread": '{"name": "copies"}'}
    async with town.binder(), town.scheduler():
        for name in "xy":
            await town.claim(name, **apart)
            await town.pod(f"of-{name}", name)
        assert {await town.until_node(f"of-{name}") for name in "xy"} == {one, two}


async def test_what_others_have_reserved_is_not_given_back(town: Town) -> None:
    _, disk = await one_disk(town)
    uid = (await town.get_claim("x")).metadata.uid
    reference = {"namespace": town.name, "name": "x", "uid": uid}
    patch = {"metadata": {"annotations": {well_known.BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": reference}}
    await town.client.objects(PersistentVolume).patch(disk, patch)
    await town.pod("pod", "x")
    async with town.scheduler() as scheduler:
        await town.until(
            lambda: scheduler.listers.node_infos.where(f"{town.name}/pod") is not None, "a node is promised"
        )
        await town.client.objects(Pod).delete("pod", town.name)
        await town.until(lambda: scheduler.listers.node_infos.where(f"{town.name}/pod") is None, "it is given back")
        assert await town.holder(disk) == "x"


async def test_a_node_that_goes_takes_its_promises_along(town: Town) -> None:
    one, disk = await one_disk(town)
    await town.pod("pod", "x")
    async with town.scheduler():
        await town.until_held(disk, "x")
        two = await town.node("two")
        spare = await town.disk("b", two)
        await town.client.objects(Node).delete(one)
        await town.until_held(spare, "x")
        assert await town.holder(disk) == ""


async def test_a_pod_that_goes_gives_its_volumes_back(town: Town) -> None:
    _, disk = await one_disk(town)
    await town.claim("other")
    await town.pod("pod", "x")
    async with town.scheduler():
        await town.until_held(disk, "x")
        await town.client.objects(Pod).delete("pod", town.name)
        await town.until_held(disk, "")
        await town.pod("second", "other")
        await town.until_held(disk, "other")


async def test_a_volume_that_is_taken_away_sends_the_pod_elsewhere(town: Town) -> None:
    _, disk = await one_disk(town)
    await town.pod("pod", "x")
    async with town.scheduler():
        await town.until_held(disk, "x")
        two = await town.node("two")
        spare = await town.disk("b", two)
        reference = {"spec": {"claimRef": {"name": "somebody", "namespace": town.name, "uid": "another"}}}
        volumes = town.client.objects(PersistentVolume)
        await volumes.patch(disk, {"spec": {"claimRef": None}})
        await volumes.patch(disk, reference)
        await town.until_held(spare, "x")


async def test_pods_that_wait_cost_nothing_while_nothing_happens_that_could_help(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    choose = schedule_one.choose

    def counted(pod_info: PodInfo, **how: Any) -> Chosen | NoNode:
        looks.append(pod_info.key)
        return choose(pod_info, **how)

    monkeypatch.setattr(schedule_one, "choose", counted)
    node = await town.node("one", cpu="1")
    for number in range(60):
        await town.pod(f"pod-{number}", cpu="2")
    meddling = Meddling(town.transport)
    clock = FakeClock()
    async with town.scheduler(meddling, clock=clock):
        for number in range(60):
            await town.until_refused(f"pod-{number}", "1 Insufficient cpu")
        before, written = len(looks), len(meddling.writes)
        nodes = town.client.objects(Node)
        for beat in range(20):
            heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2030-01-01T00:00:{beat:02}Z"}
            await nodes.patch(node, {"status": {"conditions": [heartbeat]}}, subresource="status")
        await town.storage_class()
        await town.disk("a", node)
        # What comes last shows that everything before it was seen.
        await town.pod("small", cpu="1")
        await town.until_node("small")
        assert len(looks) == before + 1
        assert len(meddling.writes) == written + 1
        # A change that could help has each looked at once, and nothing is written that says nothing new.
        await nodes.patch(node, {"metadata": {"labels": {"new": "label"}}})
        await clock.advance(20)
        await town.until(lambda: len(looks) == before + 61, "all are looked at again")
        assert len(meddling.writes) == written + 1
