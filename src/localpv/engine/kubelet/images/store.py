"""The images of this machine, in a folder that several processes may use at once, and their names.

Each image is a folder named by its id with `image.json` and the unpacked `root`; each name is a small file with that
id. Both come and go by renaming, so a reader sees an image whole or not at all, and what was cut off is never taken for
one: it begins with a dot. One image is there without an import: busybox, made from the one installed on this machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from localpv import errors
from localpv.host import commands

DEFAULT_REGISTRY, DEFAULT_FOLDER, DEFAULT_TAG = "docker.io", "library", "latest"
"""What people leave out: `busybox` means docker.io/library/busybox:latest."""

BUSYBOX = "docker.io/library/busybox"
"""The image that is always there, whatever the tag."""

BUSYBOX_SECONDS = 10.0
BUSYBOX_VERSION = "1"
"""To be raised when what is made below changes."""

_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnobody:x:65534:\n"


@dataclass(frozen=True, slots=True)
class Reference:
    """A name with all of its parts."""

    repository: str
    """With the registry, such as docker.io/library/busybox."""

    tag: str
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"

    @property
    def short(self) -> str:
        """As people write it."""
        name = self.repository.removeprefix(f"{DEFAULT_REGISTRY}/").removeprefix(f"{DEFAULT_FOLDER}/")
        return f"{name}@{self.digest}" if self.digest else f"{name}:{self.tag}"


def parse_reference(text: str) -> Reference:
    """ConfigurationError when it is no name of an image."""
    name, _, digest = text.partition("@")
    before, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    repository = f"{before}{slash}{last}"
    if not last or any(character.isspace() for character in text) or (digest and ":" not in digest):
        raise errors.ConfigurationError(f'"{text}" is not the name of an image', hint="for example localhost/app:1.2")
    first, _, rest = repository.partition("/")
    if not rest:
        repository = f"{DEFAULT_REGISTRY}/{DEFAULT_FOLDER}/{repository}"
    elif not ("." in first or ":" in first or first == "localhost"):
        repository = f"{DEFAULT_REGISTRY}/{repository}"
    return Reference(repository, tag or DEFAULT_TAG, digest)


class Config(msgspec.Struct, frozen=True, rename="pascal"):
    """How the makers of an image want it run."""

    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    env: tuple[str, ...] | None = None
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image as its image.json describes it."""

    id: str
    """sha256:… of its configuration."""

    digest: str = ""
    """sha256:… of the manifest that it was imported with, if it had one."""

    config: Config = Config()
    size: int = 0
    created: str = ""


class Images:
    """What was imported, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = folder / "names"

    def find(self, text: str) -> Image | None:
        """The image that a pod means by this name."""
        try:
            wanted = parse_reference(text)
        except errors.ConfigurationError:
            return None
        if wanted.digest:
            return next((image for image in self if wanted.digest in (image.id, image.digest)), None)
        found = self._named(wanted)
        if found is None and wanted.repository == BUSYBOX:
            found = self._named(Reference(BUSYBOX, DEFAULT_TAG))
        return found

    def root(self, image: Image) -> Path:
        return self._place(image.id) / "root"

    def names(self) -> dict[str, Image]:
        """Every name with its image, in the order of the names."""
        found = {}
        for name in sorted(_listed(self._names)):
            if not name.startswith(".") and (image := self._read(self._names / name)) is not None:
                found[unquote(name)] = image
        return found

    def __iter__(self) -> Iterator[Image]:
        for name in _listed(self.folder):
            if not name.startswith(".") and (image := self._described(name)) is not None:
                yield image

    def add(self, image: Image, names: list[Reference], fill: Callable[[Path], None]) -> None:
        """Store an image whose root folder `fill` writes, and give it names; those that had them lose them."""
        self._names.mkdir(parents=True, exist_ok=True)
        place = self._place(image.id)
        if not (place / "image.json").exists():
            new = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
            try:
                root = new / "root"
                root.mkdir(mode=0o755)
                fill(root)
                new.chmod(0o755)
                (new / "image.json").write_bytes(msgspec.json.encode(image))
                try:
                    new.rename(place)
                except OSError:
                    if not (place / "image.json").exists():  # somebody else has just imported the same
                        raise
            finally:
                shutil.rmtree(new, ignore_errors=True)
        for name in names:
            # If we die before this the image has no name, and the next import gives it.
            fd, temporary = tempfile.mkstemp(prefix=".new-", dir=self._names)
            with open(fd, "w") as file:
                file.write(image.id)
            os.replace(temporary, self._names / quote(str(name), safe=""))

    def remove(self, text: str, *, used: Callable[[Image], bool]) -> Image:
        """Take a name away, and with the last name the image; ConfigurationError when a container needs it."""
        wanted = parse_reference(text)
        image = self._named(wanted)
        if image is None:
            raise errors.ConfigurationError(f"there is no image {wanted.short}", hint="`localpv image list` shows all")
        others = [name for name, one in self.names().items() if one.id == image.id and name != str(wanted)]
        if not others and used(image):
            raise errors.ConfigurationError(
                f"a container runs from image {wanted.short}", hint="delete the pods that use it first"
            )
        (self._names / quote(str(wanted), safe="")).unlink()
        if not others:
            gone = Path(tempfile.mkdtemp(prefix=".gone-", dir=self.folder))
            self._place(image.id).rename(gone / "image")
            shutil.rmtree(gone)
        return image

    def _named(self, reference: Reference) -> Image | None:
        return self._read(self._names / quote(str(reference), safe=""))

    def _read(self, name: Path) -> Image | None:
        try:
            return self._described(name.read_text().removeprefix("sha256:"))
        except FileNotFoundError:
            return None

    def _described(self, name: str) -> Image | None:
        try:
            return msgspec.json.decode((self.folder / name / "image.json").read_bytes(), type=Image)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _place(self, id_: str) -> Path:
        return self.folder / id_.removeprefix("sha256:")


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


async def ensure_busybox(images: Images) -> Image | None:
    """Have the image there, up to date with the program; None when the machine has no static busybox."""
    found = commands.find("busybox")
    if found is None:
        return None
    program = Path(found)
    content = program.read_bytes()
    digest = hashlib.sha256(BUSYBOX_VERSION.encode() + content).hexdigest()
    image = Image(
        id=f"sha256:{digest}",
        config=Config(cmd=("sh",), env=("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)),
        size=len(content),
        created="1970-01-01T00:00:00Z",
    )
    name = parse_reference(BUSYBOX)
    there = images.names().get(str(name))
    if there is not None and (there.id == image.id or there.config != image.config):
        return there  # or somebody has imported one of his own
    applets = (await commands.run(["busybox", "--list"], timeout=BUSYBOX_SECONDS)).stdout.split()
    images.add(image, [name], lambda root: _fill(root, program, applets))
    return image


def _fill(root: Path, program: Path, applets: Iterable[str]) -> None:
    for folder in ("bin", "etc", "root", "var", "home", "usr/bin", "usr/sbin", "sbin"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copy(program, root / "bin/busybox")
    (root / "bin/busybox").chmod(0o755)
    for applet in {*applets} - {"busybox"}:
        os.symlink("busybox", root / "bin" / applet)
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUP)
