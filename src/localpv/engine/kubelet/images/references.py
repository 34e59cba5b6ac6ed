"""Names of images: `busybox`, `localhost/app:1.2`, `registry:5000/team/app@sha256:…`."""

from __future__ import annotations

from dataclasses import dataclass

from localpv import errors

DEFAULT_REGISTRY, DEFAULT_FOLDER, DEFAULT_TAG = "docker.io", "library", "latest"
"""What people leave out: `busybox` means docker.io/library/busybox:latest."""


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


def parse(text: str) -> Reference:
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
