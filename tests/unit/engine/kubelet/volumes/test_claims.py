"""Which volume is behind a claim, and which pods may have it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.engine.kubelet.volumes.world import Machine, a_pod, claim_volume

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.containers import Container
from localpv.api.kinds.meta import ObjectMeta, OwnerReference
from localpv.api.kinds.pods import EphemeralVolumeSource, Pod, Volume
from localpv.api.kinds.volumes import (
    ClaimReference,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    VolumeNodeAffinity,
)
from localpv.engine.kubelet.volumes import NotReady


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "node")
    found.machine.make_folder("/mnt/disks/vol1")
    found.lookup.offer("/mnt/disks/vol1")
    return found


async def refused(machine: Machine, pod: Pod) -> NotReady:
    with pytest.raises(NotReady) as caught:
        await machine.volumes.set_up(pod)
    assert machine.left() == []
    return caught.value


def claim(machine: Machine, **changes: object) -> None:
    found = machine.lookup.claims["default/pv"]
    machine.lookup.claims["default/pv"] = msgspec.structs.replace(found, **changes)


async def test_a_claim_that_is_missing_unbound_or_lost_is_waited_for(machine: Machine) -> None:
    assert (await refused(machine, a_pod(claim_volume("none")))).reason == "ClaimMissing"
    for phase, reason in (("Pending", "ClaimNotBound"), ("Lost", "ClaimLost"), ("", "ClaimNotBound")):
        claim(machine, status=PersistentVolumeClaimStatus(phase=phase))
        assert (await refused(machine, a_pod(claim_volume()))).reason == reason
    claim(machine, status=PersistentVolumeClaimStatus(phase="Bound"))
    await machine.volumes.set_up(a_pod(claim_volume()))


async def test_a_volume_that_belongs_to_another_claim_is_never_shown(machine: Machine) -> None:
    volume = machine.lookup.volumes["pv"]
    for reference in (None, ClaimReference(namespace="default", name="pv", uid="of-an-earlier-claim")):
        spec = msgspec.structs.replace(volume.spec, claim_ref=reference)
        machine.lookup.volumes["pv"] = msgspec.structs.replace(volume, spec=spec)
        assert (await refused(machine, a_pod(claim_volume()))).reason == "VolumeOfAnother"
    del machine.lookup.volumes["pv"]
    assert (await refused(machine, a_pod(claim_volume()))).reason == "VolumeMissing"


async def test_a_claim_that_is_being_deleted_begins_no_pod_but_ends_none(machine: Machine) -> None:
    running = a_pod(claim_volume())
    await machine.volumes.set_up(running)
    meta = msgspec.structs.replace(
        machine.lookup.claims["default/pv"].metadata, deletion_timestamp="2030-01-01T00:00:00Z"
    )
    claim(machine, metadata=meta)
    assert await machine.restarted().set_up(running)
    await machine.volumes.tear_down(running.metadata.uid)
    assert (await refused(machine, a_pod(claim_volume()))).reason == "ClaimDeleted"


async def test_a_volume_of_another_node_is_refused(machine: Machine) -> None:
    where = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=("other",))
    term = NodeSelectorTerm(match_expressions=(where,))
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    machine.lookup.offer("/mnt/disks/vol1", node_affinity=affinity)
    for name, reason in (("here", "WrongNode"), ("other", "")):
        machine.lookup.this_node = Node(metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}))
        if reason:
            assert (await refused(machine, a_pod(claim_volume()))).reason == reason
        else:
            await machine.volumes.set_up(a_pod(claim_volume()))


async def test_the_claim_of_an_ephemeral_volume_must_be_the_pods_own(machine: Machine) -> None:
    pod = a_pod(Volume(name="scratch", ephemeral=EphemeralVolumeSource()), name="web")
    machine.lookup.offer("/mnt/disks/vol1", name="web-scratch")
    found = machine.lookup.claims["default/web-scratch"]
    assert (await refused(machine, pod)).reason == "ClaimOfAnother"
    owner = OwnerReference(api_version="v1", kind="Pod", name="web", uid=pod.metadata.uid, controller=True)
    meta = msgspec.structs.replace(found.metadata, owner_references=(owner,))
    machine.lookup.claims["default/web-scratch"] = msgspec.structs.replace(found, metadata=meta)
    assert (await machine.volumes.set_up(pod))["scratch"].path.name == "web-scratch"


async def test_volumes_that_no_container_uses_are_left_alone(machine: Machine) -> None:
    pod = a_pod(claim_volume())
    spec = msgspec.structs.replace(pod.spec, containers=(Container(name="main"),))
    assert await machine.volumes.set_up(msgspec.structs.replace(pod, spec=spec)) == {}
    assert machine.left() == []


async def test_a_record_that_cannot_be_read_is_told(machine: Machine) -> None:
    volume = machine.lookup.volumes["pv"]
    meta = msgspec.structs.replace(volume.metadata, annotations={"localpv.dev/identity": "{"})
    machine.lookup.volumes["pv"] = msgspec.structs.replace(volume, metadata=meta)
    assert (await refused(machine, a_pod(claim_volume()))).reason == "InvalidIdentity"


@pytest.mark.parametrize("name", ["../etc", "a/b", "..", ""])
async def test_names_that_are_no_folder_are_refused(machine: Machine, name: str) -> None:
    volume = machine.lookup.offer("/mnt/disks/vol1", name="odd")
    machine.lookup.volumes["odd"] = msgspec.structs.replace(
        volume, metadata=msgspec.structs.replace(volume.metadata, name=name)
    )
    assert (await refused(machine, a_pod(claim_volume("odd")))).reason == "PathOutside"


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
async def test_a_claim_that_goes_while_its_volume_is_set_up_takes_it_back(machine: Machine, mode: str) -> None:
    machine.machine.add_disk("/dev/sdb")
    machine.lookup.offer("/dev/sdb", mode=mode)
    pod = a_pod(claim_volume(), devices=["data"] if mode == "Block" else [])
    answers = iter([machine.lookup.claims["default/pv"]])

    async def only_once(namespace: str, name: str) -> PersistentVolumeClaim | None:
        return next(answers, None)

    machine.lookup.claim = only_once  # type: ignore[method-assign]
    with pytest.raises(NotReady) as caught:
        await machine.volumes.set_up(pod)
    assert caught.value.reason == "ClaimGone"
    assert not machine.machine.mounted and not machine.holding.held_now
    await machine.volumes.tear_down(pod.metadata.uid)
    assert machine.left() == []


async def test_a_volume_that_is_released_while_it_is_set_up_is_taken_back(machine: Machine) -> None:
    volume = machine.lookup.volumes["pv"]
    released = msgspec.structs.replace(
        volume, spec=msgspec.structs.replace(volume.spec, claim_ref=ClaimReference(name="pv", uid="next"))
    )
    answers = iter([volume])

    async def changes(name: str) -> PersistentVolume | None:
        return next(answers, released)

    machine.lookup.volume = changes  # type: ignore[method-assign]
    with pytest.raises(NotReady) as caught:
        await machine.volumes.set_up(a_pod(claim_volume()))
    assert caught.value.reason == "ClaimGone" and not machine.machine.mounted
