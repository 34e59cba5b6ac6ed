"""Which node and which volumes a party gets."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.volume import samples
from tests.unit.volume.samples import claim, reference, volume

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.cluster import Node
from localpv.manager.groups import claim_groups, node_choice
from localpv.manager.groups.node_choice import Nodes
from localpv.volume.volume_index import VolumeIndex

NODES = Nodes([samples.node("one"), samples.node("two")])


def in_group(name: str, *, count: int = 2, group: str = "g") -> dict[str, str]:
    return {well_known.VOLUME_GROUP: f'{{"name": "{group}", "count": {count}}}'}


def test_the_node_on_which_the_claims_take_up_least_is_chosen() -> None:
    volume_index = VolumeIndex(
        [
            *(volume(f"big-{number}", size="100Gi", node="one") for number in range(2)),
            *(volume(f"small-{number}", size="10Gi", node="two") for number in range(2)),
        ]
    )
    choice = node_choice.choose([claim("a"), claim("b")], nodes=NODES, volume_index=volume_index)
    assert choice is not None and choice.node == "two"


def test_claims_make_room_for_each_other() -> None:
    # Both would like the labelled one, and only one can do with the other.
    volume_index = VolumeIndex([volume("a", labels={"disk": "ssd"}, node="one"), volume("b", size="50Gi", node="one")])
    choosy = claim("choosy", selector={"matchLabels": {"disk": "ssd"}})
    choice = node_choice.choose([claim("easy"), choosy], nodes=NODES, volume_index=volume_index)
    assert choice is not None
    assert {key: one.key for key, one in choice.volumes.items()} == {"tests/easy": "b", "tests/choosy": "a"}


def test_too_few_volumes_on_every_node_are_no_choice() -> None:
    volume_index = VolumeIndex([volume("a", node="one"), volume("b", node="two")])
    assert node_choice.choose([claim("a"), claim("b")], nodes=NODES, volume_index=volume_index) is None


def test_a_node_that_takes_no_pods_is_not_chosen() -> None:
    closed = msgspec.convert(
        {"metadata": {"name": "one", "labels": {"kubernetes.io/hostname": "one"}}, "spec": {"unschedulable": True}},
        Node,
    )
    assert node_choice.choose([claim()], nodes=Nodes([closed]), volume_index=VolumeIndex([volume(node="one")])) is None


def test_what_is_held_already_counts_as_free() -> None:
    held = volume("held", node="one", claimRef=reference("holder"))
    choice = node_choice.choose([claim()], nodes=NODES, volume_index=VolumeIndex([held]), held=[held])
    assert choice is not None and choice.volumes["tests/claim"].key == "held"


def test_a_volume_that_names_a_uid_is_never_held() -> None:
    key = claim_groups.key_of(claim(annotations=in_group("a")))
    name = key.partition("/")[2]
    tenant = volume("tenant", phase="Bound", claimRef=reference(name, "some-uid"))
    held = volume("held", claimRef=reference(name))
    assert [one.key for one in claim_groups.held(key, VolumeIndex([tenant, held]))] == ["held"]


def test_the_oldest_claims_are_the_group_and_younger_ones_too_many() -> None:
    claims = [claim(name, annotations=in_group(name)) for name in ("c", "a", "b")]
    party = claim_groups.gather(claims)
    assert party is not None and party.complete
    assert [one.metadata.name for one in party.members] == ["a", "b"]
    assert [one.metadata.name for one in party.surplus] == ["c"]


def test_claims_of_one_group_that_count_differently_are_refused() -> None:
    claims = [claim("a", annotations=in_group("a", count=2)), claim("b", annotations=in_group("b", count=3))]
    with pytest.raises(errors.ConfigurationError, match="2 and 3"):
        claim_groups.gather(claims)


def test_a_group_has_the_same_key_for_all_its_claims_and_another_in_each_namespace() -> None:
    first, second = claim("a", annotations=in_group("a")), claim("b", annotations=in_group("b"))
    assert claim_groups.key_of(first) == claim_groups.key_of(second)
    assert claim_groups.is_group(claim_groups.key_of(first))
    assert claim_groups.key_of(claim("c", annotations=in_group("c", group="other"))) != claim_groups.key_of(first)
    assert claim_groups.key_of(claim("d")) == ""


def test_a_volume_is_where_its_affinity_says_by_name_or_by_any_other_label() -> None:
    nodes = Nodes([samples.node("one", zone="a"), samples.node("two", zone="a"), samples.node("three", zone="b")])

    def where(*terms: dict[str, list[str]]) -> list[str]:
        expressions = [
            [{"key": key, "operator": "In", "values": values} for key, values in term.items()] for term in terms
        ]
        required = {"nodeSelectorTerms": [{"matchExpressions": one} for one in expressions]}
        return sorted(node.key for node in nodes.of(volume(nodeAffinity={"required": required})))

    hostname = "kubernetes.io/hostname"
    assert where({hostname: ["one"]}) == ["one"]
    assert where({hostname: ["one", "three"], "zone": ["a"]}) == ["one"]
    assert where({"zone": ["a"]}) == ["one", "two"]
    assert where({hostname: ["one"]}, {"zone": ["b"]}) == ["one", "three"]
    assert sorted(node.key for node in nodes.of(volume())) == ["one", "three", "two"]
    assert nodes.domains(volume(node="three"), "zone") == {"b"}
