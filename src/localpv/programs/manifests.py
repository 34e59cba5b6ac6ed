"""Objects from files in a folder, applied at start: a machine comes up with the classes and volumes it should have."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localpv.api import yamls
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.engine.apiserver.registry import Kind, Kinds
from localpv.errors import ApiError, ConfigurationError

SUFFIXES = (".yaml", ".yml", ".json")
PATIENCE = 5.0
"""Seconds to wait for a kind that an earlier file defines to be served."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and where it was found."""

    obj: Object
    source: str


def read(folder: Path) -> list[Manifest]:
    """All objects in the files of a folder, in the order of the files' names."""
    import yaml

    if not folder.is_dir():
        raise ConfigurationError(f"--config: {folder} is no folder", hint="name a folder with manifests in it")
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        try:
            documents = yamls.load_all(path.read_text())
        except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"{path} cannot be read: {yamls.trouble(error)}", hint="mend the file and start again"
            ) from error
        for number, document in enumerate(documents, start=1):
            if document is not None:
                found += _objects(document, f"{path}, document {number}")
    return found


def _objects(document: Any, source: str) -> list[Manifest]:
    if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
        raise ConfigurationError(f"{source}: apiVersion and kind are missing", hint="each document is one object")
    if document["kind"] == "List":
        return [entry for item in document.get("items") or [] for entry in _objects(item, source)]
    if not isinstance(document.get("metadata"), dict) or not document["metadata"].get("name"):
        raise ConfigurationError(f"{source}: metadata.name is missing", hint="give the object a name")
    return [Manifest(document, source)]


async def apply(wanted: list[Manifest], client: Client, kinds: Kinds) -> None:
    """Server-side apply of each; what an earlier start applied is brought up to date."""
    for manifest in wanted:
        kind = await _served(manifest, kinds)
        metadata = manifest.obj["metadata"]
        if kind.resource.namespaced:
            metadata.setdefault("namespace", "default")
        try:
            await client.untyped(kind.resource).apply(manifest.obj, force=True, strict=True)
        except ApiError as error:
            raise ConfigurationError(
                f"{manifest.source}: {error.message}", hint="mend the object in that file and start again"
            ) from error


async def _served(manifest: Manifest, kinds: Kinds) -> Kind:
    """The kind of an object. One that was defined a moment ago is served a moment later."""
    api_version, name = manifest.obj["apiVersion"], manifest.obj["kind"]
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while (kind := kinds.by_kind(api_version, name)) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise ConfigurationError(
                f"{manifest.source}: {name} of {api_version} is not a kind that this engine serves",
                hint="`kubectl api-resources` lists the kinds; put a CustomResourceDefinition into an earlier file",
            )
        await asyncio.sleep(0.02)
    return kind
