"""Volumes whose node is gone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.manager.worlds import CLASS, NODE, World, a_node, replace, settings

from localpv import errors
from localpv.api import volume_affinity
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeNodeAffinity,
)
from localpv.client.client import Client
from localpv.client.transport import Answer, Request
from localpv.config.settings import Configuration, NodeLossPolicy
from localpv.config.settings import NodeLoss as Policy
from localpv.disk import labels
from localpv.manager.release import node_loss
from localpv.manager.release.node_loss import NodeLoss
from localpv.observe.publishing import Publications
from localpv.observe.recorder import Recorder
from localpv.runtime.controller import Done, LookAgain, Outcome
from localpv.testing.api import FakeApi

CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/data"


class Nodes:
    """A cache that is told what it has."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = list(nodes)

    def list(self) -> list[Node]:
        return self.nodes


class Counts(Publications):
    """What was counted, in words."""

    def __init__(self, to: Recorder) -> None:
        super().__init__(to=to)
        self.said: list[str] = []

    def volume_lost(self, volume: PersistentVolume, *, failed: bool = False) -> None:
        super().volume_lost(volume, failed=failed)
        self.said.append(f"{volume.status.phase} volume {'failed' if failed else 'lost'}")

    def claim_lost(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, failed: bool = False) -> None:
        super().claim_lost(volume, claim, failed=failed)
        self.said.append(f"claim {'failed' if failed else 'lost'}")


class Case:
    """A bound volume whose node was there a moment ago."""

    def __init__(self, policy: NodeLossPolicy, *, grace: float = 60.0, bound: bool = True) -> None:
        self.world = World()
        loss = Policy(policy=policy, grace_seconds=grace)
        self.world.listers.configuration = Configuration(classes={CLASS: settings(node_loss=loss)})
        self.world.published()
        if bound:
            self.world.bind()
        self.world.see()
        self.api = FakeApi()
        self.nodes = Nodes()
        self.figures = Counts(self.world.events)
        self.start()
        self.claim(uid="claim-1")

    def start(self) -> None:
        """A new process, which remembers nothing."""
        self.loss = NodeLoss(
            Client(self.api, field_manager="test"),
            volumes=self.world.volumes,
            nodes=self.nodes,  # type: ignore[arg-type]
            is_ours=lambda volume: True,
            remembers=self.remembers,
            listers=self.world.listers,
            recorder=self.figures,
            clock=self.world.clock,
        )

    def claim(self, *, uid: str, volume: str = "") -> None:
        name = volume or self.volume.key
        self.api.put(CLAIM, {"metadata": {"uid": uid, "namespace": "default"}, "spec": {"volumeName": name}})

    @property
    def volume(self) -> Any:
        return self.world.volume

    async def step(self) -> Outcome:
        self.world.see()
        return await self.loss.step(self.volume.key)

    async def past_the_grace(self) -> None:
        outcome = await self.step()
        assert isinstance(outcome, LookAgain)
        await self.world.clock.advance(outcome.after)
        assert await self.step() == Done()

    async def remembers(self, volume: PersistentVolume) -> bool:
        disk = self.world.records.disks.get(self.world.name)
        offered = disk.spec.volume if disk is not None else None
        return offered is not None and offered.uid == volume.metadata.uid

    def deletions(self) -> list[Request]:
        return [request for request in self.api.requests if request.method == "DELETE"]


async def test_volumes_wait_for_their_node_unless_the_class_says_otherwise() -> None:
    case = Case(NodeLossPolicy.WAIT)
    assert await case.step() == Done()
    assert CLAIM in case.api.objects


async def test_claim_is_released_after_the_grace_and_the_volume_stays() -> None:
    case = Case(NodeLossPolicy.RELEASE)
    outcome = await case.step()
    assert isinstance(outcome, LookAgain) and outcome.after == 60
    assert CLAIM in case.api.objects
    await case.world.clock.advance(60)
    await case.step()
    assert CLAIM not in case.api.objects
    (deletion,) = case.deletions()
    assert deletion.body is not None and b'"uid":"claim-1"' in deletion.body
    case.world.release()
    await case.step()
    assert case.volume is not None
    assert {"NodeLost", "ClaimReleased"} <= set(case.world.events.reasons(case.volume.key))


async def test_node_that_comes_back_within_the_grace_keeps_everything() -> None:
    case = Case(NodeLossPolicy.DELETE)
    await case.step()
    await case.world.clock.advance(59)
    case.nodes.nodes = [a_node()]
    assert await case.step() == Done()
    case.nodes.nodes = []
    outcome = await case.step()
    assert isinstance(outcome, LookAgain) and outcome.after == 60, "the grace begins anew"
    assert CLAIM in case.api.objects


async def test_node_that_only_the_server_knows_keeps_everything() -> None:
    case = Case(NodeLossPolicy.DELETE)
    case.api.put(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"kubernetes.io/hostname": NODE}}})
    await case.past_the_grace()
    assert CLAIM in case.api.objects


@pytest.mark.parametrize(("uid", "volume"), [("claim-9", ""), ("claim-1", "other")])
async def test_younger_claim_of_the_same_name_is_not_touched(uid: str, volume: str) -> None:
    case = Case(NodeLossPolicy.DELETE)
    case.claim(uid=uid, volume=volume)
    await case.past_the_grace()
    assert CLAIM in case.api.objects


class Refusing(FakeApi):
    """A server that lets nothing be deleted."""

    def __init__(self, error: errors.ApiError) -> None:
        super().__init__()
        self.error = error

    async def request(self, request: Request) -> Answer:
        if request.method == "DELETE":
            self.failures = [self.error]
        return await super().request(request)


@pytest.mark.parametrize(
    ("error", "said"),
    [(errors.NotFound("it is gone"), []), (errors.Conflict("another"), []), (errors.Forbidden("no"), ["claim failed"])],
    ids=str,
)
async def test_claim_that_could_not_be_released_is_counted_unless_it_went_by_itself(
    error: errors.ApiError, said: list[str]
) -> None:
    case = Case(NodeLossPolicy.RELEASE, grace=0)
    case.api = Refusing(error)
    case.claim(uid="claim-1")
    case.start()
    if said:
        with pytest.raises(errors.Forbidden):
            await case.step()
    else:
        assert await case.step() == Done()
    assert case.figures.said == said
    assert "ClaimReleased" not in case.world.events.reasons()


async def test_claims_and_volumes_of_a_lost_node_are_counted() -> None:
    case = Case(NodeLossPolicy.DELETE)
    case.world.settle()
    case.world.volumes.before_delete.clear()
    await case.past_the_grace()
    assert case.figures.said == ["claim lost"]
    assert ("ClaimReleased" in case.world.events.reasons()) and "VolumeDelete" not in case.world.events.reasons()
    case.world.release()
    await case.step()
    assert case.figures.said == ["claim lost", "Released volume lost"]
    assert "VolumeDelete" in case.world.events.reasons(case.volume.key)


async def test_volume_that_could_not_be_deleted_is_counted_as_such() -> None:
    def refuse(_: PersistentVolume) -> None:
        raise errors.Forbidden("no")

    case = Case(NodeLossPolicy.DELETE, grace=0, bound=False)
    case.world.volumes.before_delete.insert(0, refuse)
    with pytest.raises(errors.Forbidden):
        await case.step()
    assert case.figures.said == ["Available volume failed"]
    assert "VolumeDelete" not in case.world.events.reasons()


@pytest.mark.parametrize("metadata", [{"deletionTimestamp": "2030-01-01T00:00:00Z", "uid": "claim-1"}, None])
async def test_claim_that_goes_or_is_gone_is_not_released_again(metadata: dict[str, str] | None) -> None:
    case = Case(NodeLossPolicy.RELEASE, grace=0)
    case.api.remove(CLAIM)
    if metadata:
        case.api.put(CLAIM, {"metadata": metadata, "spec": {"volumeName": case.volume.key}})
    await case.step()
    assert not case.deletions() and not case.figures.said


async def test_volume_goes_when_its_claim_is_gone_and_the_disk_is_remembered_as_unclean() -> None:
    case = Case(NodeLossPolicy.DELETE)
    case.world.settle()
    case.world.volumes.before_delete.clear()
    await case.past_the_grace()
    assert case.volume is not None, "a bound volume is not deleted"
    case.world.release()
    uid = case.volume.metadata.uid
    await case.step()
    assert case.volume.metadata.deleting
    await case.step()
    assert case.volume is None
    case.world.settle()
    order = case.world.disk.spec.clean
    assert order is not None and order.volume_uid == uid, "should the machine come back, the disk is cleaned first"


async def test_grace_goes_on_when_the_manager_is_started_anew() -> None:
    case = Case(NodeLossPolicy.RELEASE)
    await case.step()
    await case.world.clock.advance(40)
    case.start()
    outcome = await case.step()
    assert isinstance(outcome, LookAgain) and outcome.after == 20
    await case.world.clock.advance(20)
    case.start()
    await case.step()
    assert CLAIM not in case.api.objects


@pytest.mark.parametrize("written", ["", "yesterday", "2020-01-01", "2999-01-01T00:00:00Z"])
async def test_grace_is_as_configured_whatever_stands_on_the_volume(written: str) -> None:
    case = Case(NodeLossPolicy.RELEASE)
    meta = replace(case.volume.metadata, annotations={**case.volume.metadata.annotations, labels.LOST_SINCE: written})
    case.world.volumes.change(case.volume.key, metadata=meta)
    outcome = await case.step()
    assert isinstance(outcome, LookAgain) and outcome.after == 60


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("policy", [*NodeLossPolicy])
async def test_volume_deleted_by_hand_on_a_lost_node_goes_when_its_record_knows_of_it(
    policy: NodeLossPolicy, remembered: bool
) -> None:
    case = Case(policy)
    case.world.settle()
    case.world.volumes.remove(case.volume.key)
    await case.step()
    assert case.volume is not None, "it is bound"
    case.world.release()
    uid = case.volume.metadata.uid
    if not remembered:
        case.world.records.disks.clear()
    await case.step()
    assert (case.volume is None) is remembered
    if remembered:
        case.world.settle()
        order = case.world.disk.spec.clean
        assert order is not None and order.volume_uid == uid


async def test_volume_deleted_by_hand_stays_while_only_our_view_has_lost_its_node() -> None:
    case = Case(NodeLossPolicy.WAIT)
    case.api.put(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"kubernetes.io/hostname": NODE}}})
    case.world.settle()
    case.world.release()
    case.world.volumes.remove(case.volume.key)
    await case.step()
    assert case.volume is not None


async def test_volume_of_which_no_record_knows_is_not_deleted_with_its_node() -> None:
    case = Case(NodeLossPolicy.DELETE)
    case.world.settle()
    case.world.release()
    case.world.records.disks.clear()
    await case.past_the_grace()
    assert case.volume is not None and not case.volume.metadata.deleting
    assert "NotRemembered" in case.world.events.reasons(case.volume.key)


async def test_unclaimed_volume_of_a_lost_node_goes_without_cleaning() -> None:
    case = Case(NodeLossPolicy.DELETE, bound=False)
    case.world.report(eligible=False)
    await case.past_the_grace()
    assert case.volume.metadata.deleting
    await case.step()
    case.world.settle()
    assert case.volume is None
    assert (case.world.disk.spec.volume, case.world.disk.spec.clean) == (None, None)


async def test_kept_volume_is_not_deleted_with_its_node() -> None:
    case = Case(NodeLossPolicy.DELETE, grace=1)
    case.world.policy("Retain")
    case.world.release()
    await case.past_the_grace()
    assert case.volume is not None


def test_node_is_known_by_its_label_also_when_it_is_not_its_name() -> None:
    world = World()
    volume = world.published()
    volume = replace(volume, metadata=replace(volume.metadata, labels={}))
    assert node_loss.is_lost(volume, [])
    assert node_loss.is_lost(volume, [a_node("n2")])
    assert not node_loss.is_lost(volume, [a_node("n1")])
    assert not node_loss.is_lost(volume, [a_node("cloud-17", labels={"kubernetes.io/hostname": "n1"})])


def test_node_that_came_back_with_another_uid_is_not_lost() -> None:
    assert not node_loss.is_lost(World().published(), [a_node(uid="99999999-2222-3333-4444-555555555555")])


def test_volume_that_other_nodes_can_use_too_is_not_lost_with_the_first() -> None:
    volume = World().published()
    assert volume.spec.node_affinity is not None and volume.spec.node_affinity.required is not None
    zone = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="zone", operator="In", values=("a",)),))
    terms = (*volume.spec.node_affinity.required.node_selector_terms, zone)
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
    shared = replace(volume, spec=replace(volume.spec, node_affinity=affinity))
    assert not node_loss.is_lost(shared, [a_node("n2", labels={"zone": "a"})])
    assert node_loss.is_lost(shared, [a_node("n2", labels={"zone": "b"})])


def test_volume_of_which_nobody_knows_the_nodes_is_not_lost() -> None:
    volume = World().published()
    bare = replace(volume, metadata=replace(volume.metadata, labels={}), spec=replace(volume.spec, node_affinity=None))
    assert not node_loss.is_lost(bare, [])


@pytest.mark.seed("AFF-7")
def test_node_of_a_volume_is_known_by_the_annotation_of_old_too() -> None:
    volume = World().published()
    assert volume.spec.node_affinity is not None and volume.spec.node_affinity.required is not None
    terms = msgspec.to_builtins(volume.spec.node_affinity.required)["nodeSelectorTerms"]

    def annotated(text: str) -> PersistentVolume:
        metadata = replace(volume.metadata, labels={}, annotations={volume_affinity.ANNOTATION: text})
        return replace(volume, metadata=metadata, spec=replace(volume.spec, node_affinity=None))

    old = annotated(volume_affinity.annotation(terms))
    assert node_loss.is_lost(old, [a_node("n2")]) and not node_loss.is_lost(old, [a_node("n1")])
    assert not node_loss.is_lost(annotated("{"), []), "nobody can tell whose it is, so nothing is given up"


async def test_loss_of_a_node_is_told_as_a_warning_at_each_step() -> None:
    case = Case(NodeLossPolicy.DELETE)
    name = case.volume.key
    await case.past_the_grace()
    case.world.release()
    case.world.records.disks.clear()
    await case.step()
    assert [reason for about, reason in case.world.events.warnings if about == name] == [
        "NodeLost",
        "ClaimReleased",
        "NotRemembered",
    ]


async def test_volume_that_is_gone_is_no_matter_of_a_lost_node() -> None:
    case = Case(NodeLossPolicy.DELETE)
    assert await case.loss.step("no-such-volume") == Done()


async def test_volume_that_waits_for_its_node_is_not_written_at_all() -> None:
    case = Case(NodeLossPolicy.WAIT)
    calls = case.world.weather.calls
    await case.step()
    assert case.world.weather.calls == calls
