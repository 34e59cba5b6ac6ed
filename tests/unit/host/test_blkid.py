"""Signatures are read by libblkid, or by its tool where that is all there is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from localpv import errors
from localpv.host import blkid, readback


@pytest.fixture
def image(tmp_path: Path) -> Iterator[int]:
    """A file with the signature of a swap area."""
    fd = os.open(tmp_path / "image", os.O_RDWR | os.O_CREAT)
    os.truncate(fd, 1 << 20)
    readback.mark(fd)
    yield fd
    os.close(fd)


@pytest.mark.skipif(shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin:/bin") is None, reason="needs blkid")
def test_library_and_tool_find_the_same(image: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blkid.probe(image)
    assert [one.type for one in found.signatures] == ["swap"]
    monkeypatch.setattr(blkid, "_library", lambda: None)
    assert blkid.probe(image) == found


@pytest.mark.skipif(shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin:/bin") is None, reason="needs blkid")
def test_library_and_tool_find_nothing_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blank").write_bytes(bytes(1 << 20))
    with open(tmp_path / "blank", "rb") as blank:
        assert blkid.probe(blank.fileno()) == blkid.Found()
        monkeypatch.setattr(blkid, "_library", lambda: None)
        assert blkid.probe(blank.fileno()) == blkid.Found()


def test_without_both_nothing_is_called_blank(image: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blkid, "_library", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(errors.NotSupported, match="neither libblkid nor blkid"):
        blkid.probe(image)


class Library:
    """libblkid as far as it is called: what it answers, and whether all that was made is freed."""

    def __init__(self, *answers: int, opens: int = 0, handle: int = 7) -> None:
        self.answers, self.opens, self.handle = list(answers), opens, handle
        self.freed = 0

    def blkid_new_probe(self) -> int:
        return self.handle

    def blkid_probe_set_device(self, *_: object) -> int:
        return self.opens

    def blkid_do_probe(self, _: object) -> int:
        return self.answers.pop(0)

    def blkid_probe_lookup_value(self, *_: object) -> int:
        return -1

    def blkid_free_probe(self, _: object) -> None:
        self.freed += 1

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0


@pytest.mark.parametrize(
    ("library", "fails"),
    [
        (Library(1), ""),
        (Library(0, 1), ""),
        (Library(-1), "cannot be read"),
        (Library(0, -2), "cannot be read"),
        (Library(opens=-1), "cannot be looked at"),
    ],
    ids=["nothing", "something", "unreadable", "ambivalent", "not opened"],
)
def test_what_cannot_be_read_is_never_called_blank_and_nothing_is_left_behind(library: Library, fails: str) -> None:
    if fails:
        with pytest.raises(errors.HostError, match=fails):
            blkid._with_library(library, 3)
    else:
        assert blkid._with_library(library, 3).signatures == ()
    assert library.freed == 1


def test_library_without_memory_is_an_error() -> None:
    with pytest.raises(errors.HostError, match="no memory"):
        blkid._with_library(Library(handle=0), 3)


class Tool:
    """blkid as a program that ends with some code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int, said: bytes = b"") -> None:
        self.asked: list[list[str]] = []
        monkeypatch.setattr(shutil, "which", lambda *_, **__: "/sbin/blkid")

        def run(argv: list[str], **how: object) -> SimpleNamespace:
            assert how["pass_fds"] == [3]
            self.asked.append(argv)
            if code < 0:
                raise subprocess.TimeoutExpired(argv, 1)
            return SimpleNamespace(returncode=code, stdout=said, stderr=b"bad")

        monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize("code", [0, 2])
def test_tool_that_ends_well_says_what_is_there(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    tool = Tool(monkeypatch, code, b"TYPE=xfs\nUSAGE=filesystem\nUUID=u\n" if code == 0 else b"")
    assert [one.type for one in blkid._with_tool(3).signatures] == (["xfs"] if code == 0 else [])
    assert tool.asked == [["/sbin/blkid", "-p", "-o", "export", "/proc/self/fd/3"]]


def test_tool_that_finds_several_says_that_something_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    Tool(monkeypatch, 8)
    assert [one.type for one in blkid._with_tool(3).signatures] == ["ambivalent"]


@pytest.mark.parametrize("code", [1, 3, 4, 7, 9])
def test_tool_that_fails_calls_nothing_blank(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    Tool(monkeypatch, code)
    with pytest.raises(errors.CommandFailed, match=f"exited with {code}: bad"):
        blkid._with_tool(3)


def test_tool_that_does_not_end_calls_nothing_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    Tool(monkeypatch, -1)
    with pytest.raises(errors.HostTimeout):
        blkid._with_tool(3)


def test_library_is_told_to_look_for_all_there_is() -> None:
    called: dict[str, tuple[object, ...]] = {}

    class Asked(Library):
        def blkid_probe_set_device(self, *arguments: object) -> int:
            called["device"] = arguments[1:]
            return 0

        def __getattr__(self, name: str) -> Callable[..., int]:
            def call(_: object, *arguments: object) -> int:
                called[name] = arguments
                return 0

            return call

    assert blkid._with_library(Asked(*[0] * blkid._MOST), 3).signatures == (), "one that never ends is left"
    assert called == {
        "device": (3, 0, 0),
        "blkid_probe_enable_superblocks": (1,),
        "blkid_probe_set_superblocks_flags": (blkid._SUPERBLOCKS,),
        "blkid_probe_enable_partitions": (1,),
        "blkid_probe_set_partitions_flags": (blkid._ENTRY_DETAILS,),
    }


def test_signatures_are_told_once_each_and_the_entry_of_a_partition_is_none() -> None:
    xfs = {"TYPE": "xfs", "USAGE": "filesystem", "UUID": "u", "LABEL": "l"}
    rounds = [
        xfs,
        xfs,
        {"PTTYPE": "gpt", "PTUUID": "t"},
        {"PART_ENTRY_UUID": "p", "PART_ENTRY_NAME": "n"},
        {"TYPE": "x"},
    ]
    found = blkid._found(rounds)
    assert [(one.type, one.usage, one.uuid, one.label) for one in found.signatures] == [
        ("xfs", "filesystem", "u", "l"),
        ("gpt", "partition-table", "t", ""),
        ("x", "other", "", ""),
    ]
    assert (found.part_uuid, found.part_label) == ("p", "n")
