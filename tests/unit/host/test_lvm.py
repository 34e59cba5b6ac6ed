"""What is read from a report of LVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localpv import errors
from localpv.host.lvm import read_report

GROUP = {
    "vg_name": "vg1",
    "vg_uuid": "QkMJBj-uCXI-SoaK-SHMd-XKdR-IhaB-xHCzv1",
    "vg_size": "58720256",
    "vg_free": "20971520",
    "vg_extent_size": "4194304",
    "vg_missing_pv_count": "0",
    "vg_tags": "localpv.dev",
}


def volume(**fields: str) -> dict[str, str]:
    return {
        "lv_name": "localpv-pvc-1",
        "lv_uuid": "GB5V0W-dqTj-nmzf-9Wec-ckCO-QhAS-GYoQ2H",
        "lv_attr": "-wi-ao----",
        "lv_size": "16777216",
        "lv_tags": "localpv.dev,localpv.dev/state=ready",
        "lv_dm_path": "/dev/mapper/vg1-localpv--pvc--1",
        **fields,
    }


def report(*volumes: dict[str, str], segments: tuple[dict[str, str], ...] = ()) -> str:
    return json.dumps({"report": [{"vg": [GROUP], "pv": [], "lv": volumes, "seg": segments, "pvseg": []}]})


def test_a_group_and_its_volumes_are_read() -> None:
    group = read_report(report(volume()))
    assert (group.name, group.size_bytes, group.free_bytes, group.extent_bytes) == ("vg1", 58720256, 20971520, 4194304)
    found = group.volumes["localpv-pvc-1"]
    assert found.uuid == "QkMJBjuCXISoaKSHMdXKdRIhaBxHCzv1GB5V0WdqTjnmzf9WecckCOQhASGYoQ2H"
    assert (found.path, found.open, found.active) == (Path("/dev/mapper/vg1-localpv--pvc--1"), True, True)
    assert found.tags == {"localpv.dev", "localpv.dev/state=ready"}
    assert (found.read_only, found.is_cow, found.is_thin_pool, found.abnormal) == (False, False, False, "")


def test_snapshots_and_thin_pools_are_told_from_others() -> None:
    zeroes = {"lv_uuid": "thin", "zero": "zero"}
    group = read_report(
        report(
            volume(lv_name="cow", origin="data", origin_size="8388608", lv_attr="sri-a-s---"),
            volume(lv_name="thin", lv_uuid="thin", lv_attr="twi-aotz--", data_percent="12.50", metadata_percent="1.01"),
            volume(lv_name="in", pool_lv="thin", lv_attr="Vwi---tz--"),
            segments=(zeroes,),
        )
    )
    cow, thin, inside = (group.volumes[name] for name in ("cow", "thin", "in"))
    assert (cow.is_cow, cow.origin_bytes, cow.read_only) == (True, 8388608, True)
    assert (thin.is_thin_pool, thin.zeroes, thin.data_percent) == (True, True, 12.5)
    assert (inside.thin_pool, inside.active, inside.zeroes) == ("thin", False, False)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("-wi-a---p-", "a disk that it lies on is missing"),
        ("twi-a-tzD-", "no room left for data"),
        ("twi-a-tzM-", "no room left for metadata"),
        ("swi-I-s---", "invalid"),
        ("-wi-s-----", "suspended"),
        ("-wi-a-----", ""),
        ("", ""),
    ],
)
def test_what_is_wrong_with_a_volume_is_said(attributes: str, said: str) -> None:
    found = read_report(report(volume(lv_attr=attributes))).volumes["localpv-pvc-1"]
    assert said in found.abnormal if said else not found.abnormal


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"report": []}', '{"report": [{"vg": []}]}', '{"report": [{"vg": [{"vg_size": "x"}]}]}']
)
def test_a_report_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(errors.HostError, match="cannot be read"):
        read_report(text)
