"""Messages of CSI as dictionaries and as bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.csi.random_messages import FACTS, a_message

from localpv.csi import codec

CREATE = "csi.v1.CreateVolumeRequest"


@pytest.mark.parametrize("name", sorted(FACTS["messages"]))
@settings(max_examples=8)
@given(chosen=st.randoms(use_true_random=False))
def test_every_message_comes_back_as_it_was(name: str, chosen: random.Random) -> None:
    message = a_message(name, chosen)
    assert codec.decode(name, codec.encode(name, message)) == message


@pytest.mark.parametrize(
    ("name", "message", "written"),
    [
        (CREATE, {}, ""),
        (CREATE, {"name": "a", "capacity_range": {"required_bytes": 1 << 30}}, "0a01611206" + "088080808004"),
        (CREATE, {"parameters": {"b": "2", "a": ""}}, "2205" + "0a01611200" + "2206" + "0a0162120132"),
        (CREATE, {"volume_capabilities": [{"block": {}}]}, "1a02" + "0a00"),
        ("csi.v1.VolumeUsage", {"available": -1}, "08ffffffffffffffffff01"),
        ("csi.v1.VolumeUsage", {"unit": "INODES", "total": 5}, "10052002"),
        ("csi.v1.ProbeResponse", {"ready": {"value": True}}, "0a020801"),
        ("csi.v1.NodeGetVolumeStatsResponse", {"volume_condition": {"abnormal": True}}, "12020801"),
    ],
)
def test_bytes_are_those_that_go_writes(name: str, message: dict[str, Any], written: str) -> None:
    assert codec.encode(name, message).hex() == written
    assert codec.decode(name, bytes.fromhex(written)) == message


def test_zero_is_the_same_as_absent() -> None:
    assert codec.decode("csi.v1.CapacityRange", bytes.fromhex("08001005")) == {"limit_bytes": 5}
    assert codec.encode("csi.v1.NodePublishVolumeRequest", {"readonly": False, "volume_id": ""}) == b""


def test_of_fields_that_exclude_each_other_the_last_counts() -> None:
    assert codec.decode("csi.v1.VolumeCapability", bytes.fromhex("0a00" + "1200")) == {"mount": {}}


def test_a_message_that_comes_in_two_parts_is_put_together() -> None:
    parts = bytes.fromhex("12020801" + "12021002")
    assert codec.decode(CREATE, parts) == {"capacity_range": {"required_bytes": 1, "limit_bytes": 2}}


def test_a_value_without_a_name_is_its_number_and_goes_back_as_that() -> None:
    raw = bytes.fromhex("0863")
    assert codec.decode("csi.v1.VolumeCapability.AccessMode", raw) == {"mode": 99}
    assert codec.encode("csi.v1.VolumeCapability.AccessMode", {"mode": 99}) == raw


def test_fields_of_a_later_release_are_stepped_over() -> None:
    assert codec.decode("csi.v1.CapacityRange", bytes.fromhex("f80101" + "9a0603616263" + "0801")) == {
        "required_bytes": 1
    }


@pytest.mark.parametrize("message", [{"nmae": "x"}, {"volume_capabilities": [{"access_mode": {"mode": "MANY"}}]}])
def test_what_a_message_does_not_have_is_not_written(message: dict[str, Any]) -> None:
    with pytest.raises(codec.Malformed):
        codec.encode(CREATE, message)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0a",
        b"\x0a\x05ab",
        b"\x0a\x02\xff\xfe",
        b"\x08\x01",
        b"\x0b\x0c",
        b"\x00",
        b"\x12\x01\x08",
        b"\x22\x02\x08\x01",
        b"\x80" * 11,
    ],
)
def test_bytes_that_are_no_message_are_refused(raw: bytes) -> None:
    with pytest.raises(codec.Malformed):
        codec.decode(CREATE, raw)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    try:
        found = codec.decode(CREATE, raw)
    except codec.Malformed:
        return
    assert codec.decode(CREATE, codec.encode(CREATE, found)) == found


@pytest.mark.parametrize(
    "element",
    [
        pytest.param(b"\x1a\x00", id="elements"),
        pytest.param(b"\x22\x00", id="keys"),
        pytest.param(b"\xf8\x01\x01", id="unknown fields"),
        pytest.param(b"\x1b\x1c", id="groups"),
    ],
)
def test_few_bytes_do_not_become_much_memory(element: bytes) -> None:
    with pytest.raises(codec.Malformed):
        codec.decode(CREATE, element * (codec.MAX_VALUES + 1))
    inner = element * (codec.MAX_VALUES + 1)
    with pytest.raises(codec.Malformed):
        codec.decode(CREATE, b"\x3a" + len(inner).to_bytes(4) + inner)
