"""What claims ask for in annotations."""

from __future__ import annotations

import pytest
from tests.unit.volume.samples import claim

from localpv import errors
from localpv.api import well_known
from localpv.disk import labels
from localpv.volume import placement_annotations
from localpv.volume.placement_annotations import Group, Spread


@pytest.mark.seed("LVD-5")
@pytest.mark.parametrize("text", ['{"name":"group1", "count":"2"}', '{"name": "group1", "count": 2}'])
def test_a_group_counts_its_claims_in_a_number_or_a_text(text: str) -> None:
    assert placement_annotations.group_of(claim(annotations={well_known.VOLUME_GROUP: text})) == Group("group1", 2)


def test_a_spread_is_over_nodes_unless_it_names_a_label() -> None:
    assert placement_annotations.spread_of(claim(annotations={labels.SPREAD: '{"name": "a"}'})) == Spread(
        "a", well_known.HOSTNAME
    )
    racks = claim(annotations={labels.SPREAD: '{"name": "a", "key": "example.com/rack"}'})
    assert placement_annotations.spread_of(racks) == Spread("a", "example.com/rack")


def test_a_claim_without_annotations_wishes_nothing() -> None:
    assert placement_annotations.group_of(claim()) is None
    assert placement_annotations.spread_of(claim()) is None
    assert not placement_annotations.has_wish(claim())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "group1",
        "[]",
        "{}",
        '{"name": ""}',
        '{"name": "a"}',
        '{"name": "a", "count": 0}',
        '{"name": "a", "count": true}',
        '{"name": "a", "count": "two"}',
        '{"name": "a", "count": 2, "size": 3}',
    ],
)
def test_a_bad_group_says_which_annotation_and_what_to_write(text: str) -> None:
    wish = claim(annotations={well_known.VOLUME_GROUP: text})
    assert placement_annotations.has_wish(wish)
    with pytest.raises(errors.ConfigurationError, match=r"volume\.beta\.kubernetes\.io/group") as raised:
        placement_annotations.group_of(wish)
    assert "count" in raised.value.hint


def test_a_spread_over_what_is_no_label_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"localpv\.dev/spread"):
        placement_annotations.spread_of(claim(annotations={labels.SPREAD: '{"name": "a", "key": "no label"}'}))
