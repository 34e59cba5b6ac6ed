"""Two readings are of one disk unless something speaks against it."""

from __future__ import annotations

import dataclasses

import pytest

from localpv.model import methods
from localpv.model.identity import Identity

DISK = Identity(
    by_id=("ata-X_1", "wwn-0x5"),
    wwn="0x5",
    serial="1",
    fs_uuid="f-1",
    major_minor="8:16",
    size_bytes=1000,
    model="X",
)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"by_id": ()},
        {"by_id": ("wwn-0x5",)},
        {"wwn": "", "serial": "", "fs_uuid": "", "model": ""},
        {"major_minor": "8:32"},
        {"part_uuid": "p-1"},
        {"mount_id": 7},
    ],
)
def test_gaps_and_new_numbers_do_not_make_another_disk(change: dict[str, object]) -> None:
    now = dataclasses.replace(DISK, **change)  # type: ignore[arg-type]
    assert DISK.mismatches(now) == () and DISK.same_device(now) and now.same_device(DISK)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("by_id", ("ata-X_2",)),
        ("wwn", "0x6"),
        ("serial", "2"),
        ("fs_uuid", "f-2"),
        ("size_bytes", 1001),
        ("model", "Y"),
    ],
)
def test_every_contradiction_makes_another_disk_and_is_told(field: str, value: object) -> None:
    now = dataclasses.replace(DISK, **{field: value})  # type: ignore[arg-type]
    assert not DISK.same_device(now)
    (found,) = DISK.mismatches(now)
    assert found.field == field and str(found).startswith(f"{field} was ")


def test_numbers_count_where_nothing_lasting_is_known() -> None:
    plain = Identity(major_minor="7:0", size_bytes=1000)
    assert plain.same_device(plain)
    assert not plain.same_device(dataclasses.replace(plain, major_minor="7:1"))


def test_nothing_known_is_no_match() -> None:
    assert not Identity().same_device(Identity())
    assert not Identity(size_bytes=5).same_device(DISK)
    assert not Identity(size_bytes=1000, model="X").same_device(DISK)


def test_contents_can_be_left_out() -> None:
    formatted = dataclasses.replace(DISK, fs_uuid="f-2")
    assert DISK.same_device(formatted, contents=False)
    plain = Identity(fs_uuid="f-1", size_bytes=1000, major_minor="7:0")
    assert not plain.same_device(dataclasses.replace(plain, major_minor="7:1"), contents=False)


@pytest.mark.parametrize(
    ("given", "method"),
    [
        (["zero"], methods.Zero()),
        (["zero", "2"], methods.Zero(2)),
        (["/scripts/shred.sh", "5"], methods.Shred(5)),
        (["/scripts/quick_reset.sh"], methods.FsReset()),
        (["discard"], methods.Discard()),
        (["/opt/mine", "-x"], methods.Command(("/opt/mine", "-x"))),
    ],
)
def test_a_method_is_read_from_words_and_written_again(given: list[str], method: methods.Method) -> None:
    assert methods.parse(given) == method
    assert methods.parse(methods.words(method)) == method


@pytest.mark.parametrize(
    "given", [[], [""], ["zero", "0"], ["zero", "x"], ["zero", "1", "2"], ["discard", "1"], ["zreo"]]
)
def test_words_that_name_no_method_are_refused(given: list[str]) -> None:
    with pytest.raises(ValueError):
        methods.parse(given)
