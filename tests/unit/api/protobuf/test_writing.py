"""Objects are written byte for byte as Go writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.api import protobuf
from localpv.api.protobuf import wire
from localpv.errors import UnsupportedMediaType

BODIES: dict[str, Any] = json.loads(Path(__file__).with_name("bodies.json").read_bytes())

HOLD_RAW_JSON = {"definition", "pod-every-volume"}
"""Spaces between the words of raw JSON inside these are up to the client."""


@pytest.mark.parametrize("name", sorted(BODIES.keys() - HOLD_RAW_JSON))
def test_object_is_written_as_go_writes_it(name: str) -> None:
    assert protobuf.encode(BODIES[name]["object"]).hex() == BODIES[name]["body"]


@pytest.mark.parametrize("name", sorted(BODIES))
def test_written_object_reads_as_itself(name: str) -> None:
    assert protobuf.decode(protobuf.encode(BODIES[name]["object"])) == BODIES[name]["object"]


def test_custom_kind_has_no_binary_form() -> None:
    with pytest.raises(UnsupportedMediaType):
        protobuf.encode({"apiVersion": "localpv.dev/v1alpha1", "kind": "LocalDisk"})


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_number_reads_as_it_was_written(value: int) -> None:
    raw = wire.write_varint(value)
    found, at = wire.varint(raw, 0, len(raw))
    assert (wire.int64(found), at) == (value, len(raw))
