"""The images of this machine, in a folder that several processes may use at once.

Each image is a folder named by its id with `image.json` and the unpacked `root`; each name is a small file with that
id. Both come and go by renaming, so a reader sees an image whole or not at all, and what was cut off is never taken for
one: it begins with a dot.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from localpv import errors
from localpv.engine.kubelet.images import references
from localpv.engine.kubelet.images.references import Reference

BUSYBOX = "docker.io/library/busybox"
"""The image that is always there, whatever the tag."""


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
            wanted = references.parse(text)
        except errors.ConfigurationError:
            return None
        if wanted.digest:
            return next((image for image in self if wanted.digest in (image.id, image.digest)), None)
        found = self._named(wanted)
        if found is None and wanted.repository == BUSYBOX:
            found = self._named(Reference(BUSYBOX, references.DEFAULT_TAG))
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
        wanted = references.parse(text)
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
