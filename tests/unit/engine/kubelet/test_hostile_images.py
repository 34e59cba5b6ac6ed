"""Images that mean harm: whatever is in them, nothing outside their folder is touched, and the answer is a sentence."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.engine.kubelet import archives as writing

from localpv import errors
from localpv.engine.kubelet.images import archives, layers
from localpv.engine.kubelet.images.layers import Unpacker
from localpv.engine.kubelet.images.store import Images

STEPS = ("a", "b", "link", "..", ".", "", "precious", ".wh.", ".wh..", ".wh...", ".wh.a", ".wh.link", ".wh.precious")
NAMES = st.lists(st.sampled_from([*STEPS, ".wh..wh..opq", ".wh../b", ".wh.../precious"]), min_size=1, max_size=4).map(
    "/".join
)
TARGETS = st.sampled_from(["..", "../..", "/", "a", "a/b", "link", "../precious", "/precious", ".", "", "link/../.."])
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"x"]
)


@st.composite
def entries(draw: st.DrawFn) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(draw(NAMES) if draw(st.booleans()) else f"/{draw(NAMES)}")
    info.type = draw(KINDS)
    content = b""
    if info.type == b"x":  # a path that only the extended header says
        info.type, info.pax_headers = tarfile.REGTYPE, {"path": draw(NAMES)}
    if info.type in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        info.linkname = draw(TARGETS)
    elif info.type == tarfile.REGTYPE:
        content = draw(st.binary(max_size=20))
    info.size, info.mode = len(content), draw(st.sampled_from([0o755, 0o4755, 0o000, 0o7777]))
    info.uid = draw(st.sampled_from([0, 1000, 2**33, -1]))
    info.mtime = draw(st.sampled_from([0, 1, 2**40, -(2**40)]))
    return info, content


def tar(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as file:
        for info, content in members:
            file.addfile(info, io.BytesIO(content))
    return made.getvalue()


def named(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def seen(folder: Path, without: Path) -> dict[str, object]:
    """All that is in a folder, but for one part of it: kinds, modes, owners, times, contents."""
    found: dict[str, object] = {}
    for path in [folder, *folder.rglob("*")]:
        if path == without or without in path.parents:
            continue
        info = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        # The time of the folder that holds the image is the time at which the image came.
        when = 0 if path == without.parent else info.st_mtime_ns
        found[str(path)] = (info.st_mode, info.st_uid, info.st_gid, info.st_nlink, when, content)
    return found


LINK = named("link", type=tarfile.SYMTYPE, linkname="..")


@settings(max_examples=150)
@given(layers=st.lists(st.lists(entries(), max_size=6), min_size=1, max_size=3))
@example(layers=[[named(".wh...")]])
@example(layers=[[named("a", type=tarfile.DIRTYPE)], [named("a/.wh...")]])
@example(layers=[[named("a/b", b"x")], [named("a/.wh..")]])
@example(layers=[[LINK], [named("link/.wh.precious")]])
@example(layers=[[LINK], [named("link/.wh..wh..opq")]])
@example(layers=[[named("hard", type=tarfile.LNKTYPE, linkname="link/precious"), LINK]])
@example(layers=[[LINK, named("hard", type=tarfile.LNKTYPE, linkname="link/precious")]])
@example(
    layers=[[named("a", type=tarfile.DIRTYPE, mode=0o4777), LINK, named("a", type=tarfile.SYMTYPE, linkname="..")]]
)
def test_nothing_outside_the_folder_is_touched(layers: list[list[tuple[tarfile.TarInfo, bytes]]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        world = Path(made)
        (world / "above" / "beside").mkdir(parents=True)
        for path in (world / "precious", world / "above" / "precious", world / "above" / "beside" / "b"):
            path.write_text("keep")
        root = world / "above" / "root"
        root.mkdir()
        before = seen(world, root)
        unpacker = Unpacker(root)
        try:
            for layer in layers:
                unpacker.add(io.BytesIO(tar(layer)))
        except (errors.LocalpvError, OSError):
            pass  # refused; `archives.load` makes a sentence of what the kernel refuses
        finally:
            unpacker.close()
        assert seen(world, root) == before


@pytest.mark.parametrize("name", [".wh...", ".wh..", ".wh.", "a/.wh...", "a/b/.wh...", "./.wh...", "/.wh..."])
def test_whiteout_of_no_file_beside_it_is_refused(tmp_path: Path, name: str) -> None:
    images = Images(tmp_path / "images")
    images.folder.mkdir()
    (tmp_path / "images" / "precious").write_text("keep")
    lower = writing.layer({"a": None, "a/b": None, "a/b/c": b"kept"})
    file = writing.docker(tmp_path / "image.tar", [lower, writing.layer({name: b""})])
    with pytest.raises(errors.OutsideFolder, match="whiteout"):
        archives.load(file, images)
    assert (tmp_path / "images" / "precious").read_text() == "keep"
    assert images.names() == {} and sorted(os.listdir(images.folder)) == ["names", "precious"], "nothing is left of it"


def load(tmp_path: Path, layer: bytes) -> None:
    images = Images(tmp_path / "images")
    images.folder.mkdir()
    try:
        archives.load(writing.oci(tmp_path / "image.tar", [layer]), images)
    finally:
        left = [name for name in os.listdir(images.folder) if name != "names"]
        assert not left, "what was refused leaves nothing behind"


def test_file_that_is_larger_than_any_image_is_refused_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "MOST_BYTES", 1 << 20)
    with pytest.raises(errors.ConfigurationError, match="too large"):
        load(tmp_path, writing.layer({f"zeroes-{number}": bytes(400 << 10) for number in range(4)}))


def test_image_of_very_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_FILES", 50)
    with pytest.raises(errors.ConfigurationError, match="too large"):
        load(tmp_path, writing.layer({str(number): b"" for number in range(51)}))


def test_sparse_file_is_refused(tmp_path: Path) -> None:
    pax = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(1 << 50), "GNU.sparse.map": "0,0"}
    with pytest.raises(errors.ConfigurationError, match="sparse"):
        load(tmp_path, tar([named("file", pax_headers=pax)]))


def test_header_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="too long"):
        load(tmp_path, tar([named("file", pax_headers={"comment": "x" * (2 << 20)})]))


@pytest.mark.parametrize("path", ["a/" * 400 + "a", "b" * 5000])
def test_path_that_nobody_could_delete_again_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="too deep"):
        load(tmp_path, tar([named(path, b"x")]))


def test_attributes_for_the_overlay_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    pax = {"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.trusted.overlay.redirect": "/etc"}
    unpacker = Unpacker(root)
    unpacker.add(io.BytesIO(tar([named("a", type=tarfile.DIRTYPE, pax_headers=pax)])))
    unpacker.close()
    assert os.listxattr(root / "a") == []


@pytest.mark.parametrize(
    "manifest",
    [
        b"[1]",
        b'[{"Config": 3, "Layers": 4}]',
        b'[{"Config": "config.json", "Layers": "abc"}]',
        b'[{"Config": "config.json", "Layers": [], "RepoTags": 7}]',
        b"[" * 20000,
    ],
)
def test_description_of_a_wrong_form_is_refused_with_a_sentence(tmp_path: Path, manifest: bytes) -> None:
    images = Images(tmp_path / "images")
    images.folder.mkdir()
    described = b'{"config": {}, "rootfs": {"diff_ids": []}}'
    file = tmp_path / "image.tar"
    file.write_bytes(writing.layer({"config.json": described, "manifest.json": manifest}))
    with pytest.raises(errors.ConfigurationError):
        archives.load(file, images)


def test_archive_that_unpacks_to_fill_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 1 << 20)
    file = tmp_path / "image.tar.gz"
    file.write_bytes(gzip.compress(bytes(4 << 20)))
    with pytest.raises(errors.ConfigurationError, match="more than"):
        archives.load(file, Images(tmp_path / "images"))
