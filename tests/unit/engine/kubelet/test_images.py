"""Images: imported whole, checked, and never written outside their folder."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import pytest
from tests.unit.engine.kubelet import archives as writing

from localpv import errors
from localpv.engine.kubelet.images import archives, store
from localpv.engine.kubelet.images.layers import Unpacker
from localpv.engine.kubelet.images.store import Image, Images


@pytest.fixture
def images(tmp_path: Path) -> Images:
    folder = tmp_path / "images"
    folder.mkdir()
    return Images(folder)


@pytest.mark.parametrize("write", [writing.docker, writing.oci])
def test_archive_becomes_an_image_with_its_layers_over_each_other(images: Images, tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]
    lower = writing.layer({"etc": None, "etc/old": b"old", "etc/kept": b"kept", "dir": None, "dir/x": b"x"})
    upper = writing.layer({"etc/.wh.old": b"", "etc/new": b"new", "dir/.wh..wh..opq": b"", "dir/y": b"y"})
    file = write(tmp_path / "image.tar", [lower, upper], Cmd=["run"], Env=["A=b"], User="app", WorkingDir="/work")
    [(name, image)] = archives.load(file, images)
    assert str(name) == "localhost/app:1"
    root = images.root(image)
    found = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
    assert found == {"etc/kept": "kept", "etc/new": "new", "dir/y": "y"}
    assert image.config.cmd == ("run",) and image.config.user == "app" and image.config.working_dir == "/work"
    assert images.find("localhost/app:1") == image
    assert images.find("localhost/app:2") is None


def test_archive_may_be_compressed_as_a_whole(images: Images, tmp_path: Path) -> None:
    file = writing.docker(tmp_path / "image.tar", [writing.layer({"a": b"a"})])
    packed = tmp_path / "image.tar.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert archives.load(packed, images)


@pytest.mark.parametrize("write", [writing.docker, writing.oci])
def test_layer_with_another_content_than_announced_is_refused(images: Images, tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]
    content = os.urandom(64)
    file = write(tmp_path / "image.tar", [writing.layer({"a": content})])
    whole = bytearray(file.read_bytes())
    # The last byte of the layer that is neither padding nor a header.
    position = whole.rfind(content) + 63 if content in whole else whole.rfind(gzip.compress(b"")[:4]) + 40
    whole[position] ^= 1
    file.write_bytes(whole)
    with pytest.raises(errors.ConfigurationError, match="damaged"):
        archives.load(file, images)
    assert images.names() == {} and list(images) == []


def bad_link() -> tarfile.TarInfo:
    info = tarfile.TarInfo("inside")
    info.type, info.linkname = tarfile.LNKTYPE, "../../outside"
    return info


@pytest.mark.parametrize(
    "files",
    [
        {"../outside": b"x"},
        {"a/../../outside": b"x"},
        {"link": "/", "link/outside": b"x"},
        {"link": "..", "link/outside": b"x"},
        {"inside": bad_link()},
    ],
)
def test_layer_that_leads_out_of_its_folder_is_refused(tmp_path: Path, images: Images, files) -> None:  # type: ignore[no-untyped-def]
    file = writing.docker(tmp_path / "image.tar", [writing.layer(files)])
    with pytest.raises(errors.OutsideFolder):
        archives.load(file, images)
    assert not (tmp_path / "outside").exists() and not (tmp_path.parent / "outside").exists()
    assert images.names() == {} and not [name for name in os.listdir(images.folder) if not name.startswith("names")]


def test_whiteout_does_not_reach_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    root = tmp_path / "root"
    root.mkdir()
    unpacker = Unpacker(root)
    import io

    unpacker.add(io.BytesIO(writing.layer({"link": ".."})))
    unpacker.add(io.BytesIO(writing.layer({"link/.wh.precious": b""})))
    unpacker.close()
    assert (tmp_path / "precious").read_text() == "keep"


def test_links_inside_an_image_stay_as_they_are(tmp_path: Path, images: Images) -> None:
    hard = tarfile.TarInfo("hard")
    hard.type, hard.linkname = tarfile.LNKTYPE, "file"
    file = writing.docker(tmp_path / "image.tar", [writing.layer({"file": b"x", "soft": "/etc/passwd", "hard": hard})])
    [(_, image)] = archives.load(file, images)
    root = images.root(image)
    assert os.readlink(root / "soft") == "/etc/passwd"
    assert (root / "hard").stat().st_ino == (root / "file").stat().st_ino


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("team/app", "docker.io/team/app:latest"),
        ("localhost/app:2", "localhost/app:2"),
        ("registry.example:5000/team/app", "registry.example:5000/team/app:latest"),
    ],
)
def test_short_names_of_images_mean_long_ones(text: str, full: str) -> None:
    assert str(store.parse_reference(text)) == full
    assert store.parse_reference(store.parse_reference(text).short) == store.parse_reference(text)


def test_name_moves_to_the_image_that_is_imported_last(tmp_path: Path, images: Images) -> None:
    [(_, first)] = archives.load(writing.docker(tmp_path / "1.tar", [writing.layer({"a": b"1"})]), images)
    [(_, second)] = archives.load(writing.docker(tmp_path / "2.tar", [writing.layer({"a": b"2"})]), images)
    assert images.find("localhost/app:1") == second != first
    assert {image.id for image in images} == {first.id, second.id}, "containers may still run from the first"


def test_image_goes_with_its_last_name_and_not_while_it_is_used(tmp_path: Path, images: Images) -> None:
    file = writing.docker(tmp_path / "1.tar", [writing.layer({"a": b"1"})], names=("localhost/a:1", "localhost/b:1"))
    image = archives.load(file, images)[0][1]
    images.remove("localhost/a:1", used=lambda image: True)
    with pytest.raises(errors.ConfigurationError, match="runs from"):
        images.remove("localhost/b:1", used=lambda image: True)
    assert images.find("localhost/b:1") == image
    images.remove("localhost/b:1", used=lambda image: False)
    assert list(images) == [] and images.names() == {}
    with pytest.raises(errors.ConfigurationError, match="no image"):
        images.remove("localhost/b:1", used=lambda image: False)


def test_image_without_a_name_needs_one(tmp_path: Path, images: Images) -> None:
    file = writing.oci(tmp_path / "1.tar", [writing.layer({"a": b"1"})], name="")
    with pytest.raises(errors.ConfigurationError, match="no name"):
        archives.load(file, images)
    archives.load(file, images, name="given:3")
    assert images.find("given:3") is not None


def test_image_is_found_by_digest(tmp_path: Path, images: Images) -> None:
    image = archives.load(writing.oci(tmp_path / "1.tar", [writing.layer({"a": b"1"})]), images)[0][1]
    assert images.find(f"localhost/app@{image.digest}") == image
    assert images.find(f"localhost/app@sha256:{'0' * 64}") is None


@pytest.mark.parametrize("content", [b"", b"not a tar", writing.layer({"some": b"file"})])
def test_file_that_is_no_image_is_refused_with_a_sentence(tmp_path: Path, images: Images, content: bytes) -> None:
    file = tmp_path / "image.tar"
    file.write_bytes(content)
    with pytest.raises(errors.ConfigurationError, match=r"no archive|is no"):
        archives.load(file, images)


def test_import_that_was_cut_off_is_not_an_image(images: Images) -> None:
    def fill(root: Path) -> None:
        (root / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        images.add(Image(id="sha256:1"), [store.parse_reference("a")], fill)
    assert images.find("a") is None and list(images) == []
