"""Archives of images: an OCI layout or what `docker save` writes, as one tar file, compressed or not."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import msgspec

from localpv import errors
from localpv.engine.kubelet.images import store
from localpv.engine.kubelet.images.layers import MOST_BYTES, Unpacker
from localpv.engine.kubelet.images.store import Config, Image, Images, Reference

MOST_JSON = 8 * 1024 * 1024
"""No description of an image is as long; a larger one is an attack."""

MOST_LAYERS = 512
"""Layers of one image; makers of images stop at about 127."""

NAME = "org.opencontainers.image.ref.name"
FULL_NAME = "io.containerd.image.name"
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of the archive, with the digest that it should have."""

    member: str
    digest: str = ""
    unpacked: bool = False
    """Whether the digest is that of the uncompressed content."""


@dataclass(frozen=True, slots=True)
class _Described:
    names: tuple[str, ...]
    config: bytes
    digest: str
    layers: tuple[_Part, ...]


def load(file: Path, images: Images, *, name: str = "") -> list[tuple[Reference, Image]]:
    """Import every image of an archive; (name, image) of each. ConfigurationError says what is wrong with it."""
    with _opened(file) as tar:
        known = {member.name.removeprefix("./"): member for member in tar if member.isfile()}
        archive = _Archive(tar, known)
        if "manifest.json" in known:
            found = archive.docker()
        elif "index.json" in known:
            found = archive.oci()
        else:
            raise errors.ConfigurationError(
                f"{file} is no archive of an image", hint="make one with `docker save` or `skopeo copy … oci-archive:`"
            )
        if not found:
            raise errors.ConfigurationError(f"{file} has no image in it")
        loaded = []
        for one in found:
            given = [store.parse_reference(text) for text in ((name,) if name else one.names)]
            if not given:
                raise errors.ConfigurationError(f"the image in {file} has no name", hint="give it one with --name")
            image = archive.store(one, given, images)
            loaded += [(reference, image) for reference in given]
        return loaded


class _Archive:
    def __init__(self, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> None:
        self._tar, self._members = tar, members

    def docker(self) -> list[_Described]:
        """manifest.json names the parts; digests of the layers are in the configuration."""
        found = []
        for entry in _decoded(self._small("manifest.json"), "manifest.json", list[dict[str, Any]]):
            config = self._small(str(_field(entry, "Config")))
            diffs = _diff_ids(config)
            layers = [str(layer) for layer in _listed(entry, "Layers")]
            if len(layers) != len(diffs):
                raise errors.ConfigurationError("manifest.json and the image's configuration name different layers")
            parts = tuple(_Part(layer, diff, True) for layer, diff in zip(layers, diffs, strict=True))
            names = [str(name) for name in _listed(entry, "RepoTags")] if entry.get("RepoTags") else []
            found.append(_Described(tuple(names), config, "", parts))
        return found

    def oci(self) -> list[_Described]:
        """index.json names manifests by digest, which name the rest by digest; indexes may be nested."""
        index = _decoded(self._small("index.json"), "index.json", dict)
        return [self._manifest(entry, names) for entry, names in self._manifests(index, 0)]

    def _manifests(self, index: dict[str, Any], depth: int) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
        for entry in _listed(index, "manifests"):
            notes = _inner(entry, "annotations")
            name = notes.get(FULL_NAME) or notes.get(NAME)
            names = (str(name),) if name else ()
            if entry.get("mediaType") in _MANIFESTS:
                if _for_here(_inner(entry, "platform")):
                    yield entry, names
            elif depth < 2:
                below = _decoded(self._blob(entry), "an index", dict)
                for inner, inner_names in self._manifests(below, depth + 1):
                    yield inner, inner_names or names

    def _manifest(self, entry: dict[str, Any], names: tuple[str, ...]) -> _Described:
        manifest = _decoded(self._blob(entry), "a manifest", dict)
        layers = tuple(
            _Part(_blob_path(str(_field(layer, "digest"))), str(layer["digest"]))
            for layer in _listed(manifest, "layers")
        )
        return _Described(names, self._blob(_field(manifest, "config")), str(entry["digest"]), layers)

    def _blob(self, entry: dict[str, Any]) -> bytes:
        digest = str(_field(entry, "digest"))
        content = self._small(_blob_path(digest))
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise errors.ConfigurationError(f"the archive is damaged: {digest} has another content")
        return content

    def store(self, one: _Described, names: list[Reference], images: Images) -> Image:
        if len(one.layers) > MOST_LAYERS:
            raise errors.ConfigurationError(f"the image has {len(one.layers)} layers", hint=f"at most {MOST_LAYERS}")
        described = _decoded(one.config, "the image's configuration", dict)
        try:
            config = msgspec.convert(described.get("config") or {}, Config)
        except msgspec.ValidationError as error:
            raise errors.ConfigurationError(f"the image's configuration cannot be read: {error}") from error
        image = Image(
            id=f"sha256:{hashlib.sha256(one.config).hexdigest()}",
            digest=one.digest,
            config=config,
            size=sum(self._found(part.member).size for part in one.layers),
            created=str(described.get("created") or ""),
        )

        def fill(root: Path) -> None:
            unpacker = Unpacker(root)
            try:
                for part in one.layers:
                    self._check(part)
                    with self._open(part.member) as layer:
                        unpacker.add(layer)
            finally:
                unpacker.close()

        images.add(image, names, fill)
        return image

    def _check(self, part: _Part) -> None:
        """Before anything is unpacked: a layer whose content is not what the image names is not used."""
        with self._open(part.member) as layer:
            packed = hashlib.file_digest(cast(Any, layer), "sha256").hexdigest()
        if f"sha256:{packed}" == part.digest:
            return
        if part.unpacked:
            with contextlib.suppress(OSError, EOFError), self._open(part.member) as layer, gzip.open(layer) as content:
                unpacked = hashlib.sha256()
                _copy(content, unpacked.update)
                if f"sha256:{unpacked.hexdigest()}" == part.digest:
                    return
        raise errors.ConfigurationError(f"the archive is damaged: layer {part.digest} has another content")

    def _small(self, name: str) -> bytes:
        member = self._found(name)
        if member.size > MOST_JSON:
            raise errors.ConfigurationError(f"{name} of the archive is too long to be a description")
        with self._open(name) as content:
            return content.read()

    def _open(self, name: str) -> BinaryIO:
        content = self._tar.extractfile(self._found(name))
        assert content is not None
        return cast(BinaryIO, content)

    def _found(self, name: str) -> tarfile.TarInfo:
        member = self._members.get(name.removeprefix("./"))
        if member is None:
            raise errors.ConfigurationError(f"the archive names {name}, which is not in it", hint="make it anew")
        if member.sparse is not None:  # a few bytes that read as very many
            raise errors.ConfigurationError(f"{name} of the archive is a sparse file", hint="make it anew")
        return member


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    """The archive, seekable: one that is compressed as a whole is unpacked beside first."""
    try:
        with contextlib.ExitStack() as stack:
            plain: IO[bytes] = stack.enter_context(file.open("rb"))
            if plain.read(2) == b"\x1f\x8b":
                plain.seek(0)
                whole = stack.enter_context(tempfile.TemporaryFile())
                packed = stack.enter_context(gzip.open(plain))
                _copy(packed, whole.write)
                plain = whole
            plain.seek(0)
            yield stack.enter_context(tarfile.open(fileobj=plain, mode="r:"))
    except OSError as error:
        raise errors.ConfigurationError(f"{file} cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError) as error:
        raise errors.ConfigurationError(f"{file} is no archive: {error}") from error


def _copy(packed: gzip.GzipFile, to: Callable[[bytes], object]) -> None:
    """Everything, as long as it is not more than any image is: a few bytes can unpack to fill the disk."""
    read = 0
    while chunk := packed.read(1 << 20):
        read += len(chunk)
        if read > MOST_BYTES:
            raise errors.ConfigurationError(f"the archive unpacks to more than {MOST_BYTES >> 30} GiB")
        to(chunk)


def _decoded(content: bytes, what: str, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise errors.ConfigurationError(f"{what} of the archive cannot be read: {error}") from error


def _field(entry: Any, name: str) -> Any:
    if not isinstance(entry, dict) or entry.get(name) is None:
        raise errors.ConfigurationError(f"the archive's description has no {name}")
    return entry[name]


def _listed(entry: Any, name: str) -> list[Any]:
    found = _field(entry, name)
    if not isinstance(found, list):
        raise errors.ConfigurationError(f"{name} of the archive's description must be a list")
    return found


def _inner(entry: Any, name: str) -> dict[str, Any]:
    found = entry.get(name) if isinstance(entry, dict) else None
    return found if isinstance(found, dict) else {}


def _diff_ids(config: bytes) -> Sequence[str]:
    described = _decoded(config, "the image's configuration", dict)
    return [str(one) for one in _listed(_field(described, "rootfs"), "diff_ids")]


def _blob_path(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or len(value) != 64 or not value.isalnum():
        raise errors.ConfigurationError(f'the archive uses the digest "{digest}"', hint="only sha256 is known")
    return f"blobs/sha256/{value}"


def _for_here(platform: dict[str, Any]) -> bool:
    import platform as machine

    here = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine.machine(), machine.machine())
    return bool(platform.get("os", "linux") == "linux" and platform.get("architecture", here) == here)
