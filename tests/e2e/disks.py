"""What journeys do with disks and how they look at them, on whichever engine."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.contract import builders, wire
from tests.e2e import pods
from tests.e2e.place import Host, Place

SECONDS = 120.0
"""For steps that take a few seconds on an idle machine: a new directory alone settles for five."""


# -- doing -------------------------------------------------------------------------------------------------------------


def add_directory(place: Place, host: Host, name: str) -> str:
    """A disk for the class: a plain directory, or one with a file system of its own."""
    path = f"{place.folder}/{name}/disk"
    if name.endswith("mount"):
        # One command: a directory is offered as a plain one when nothing is mounted on it for a few seconds.
        host.run("sh", "-c", f"mkdir {path} && mount -t tmpfs -o size=32m tmpfs {path}")
    else:
        host.run("mkdir", path)
    return path


def claim(here: pods.Here, name: str, **spec: Any) -> str:
    wanted = {"storageClassName": name, "resources": {"requests": {"storage": "16Mi"}}, **spec}
    made = here.api.post(here.space.core("persistentvolumeclaims"), builders.claim(builders.unique("claim"), **wanted))
    return str(made["metadata"]["name"])


def take(here: pods.Here, volume: Any) -> str:
    """Claim a volume by its name, without a pod; the claim, bound."""
    spec = volume["spec"]
    wanted = {"volumeName": volume["metadata"]["name"], "volumeMode": spec["volumeMode"]}
    made = claim(here, spec["storageClassName"], resources={"requests": {"storage": "1Mi"}}, **wanted)
    wire.eventually(lambda: here.claim(made)["status"].get("phase") == "Bound", f"{made} is bound", within=SECONDS)
    return made


def give_back(here: pods.Here, claim: str) -> None:
    here.api.delete(here.space.core("persistentvolumeclaims", claim))


@contextlib.contextmanager
def linked(place: Place, host: Host, name: str, *, entry: str = "disk") -> Iterator[Path]:
    """A blank device of 16 MiB with a link to it among the disks of a class, until the with-block ends."""
    link = f"{place.folder}/{name}/{entry}"
    with place.disk(16 << 20) as device:
        host.run("ln", "-s", str(device), link)
        try:
            yield device
        finally:
            host.run("rm", "-f", link)


# -- looking -----------------------------------------------------------------------------------------------------------


def volumes(here: pods.Here, name: str) -> list[Any]:
    found = here.api.get("/api/v1/persistentvolumes")["items"]
    return [one for one in found if one["spec"].get("storageClassName") == name]


def offered(place: Place, here: pods.Here, name: str, *, entry: str = "disk", instead_of: Any = None) -> Any:
    """The volume of an entry once it is there to be claimed, and another than before."""
    path = f"{place.folder}/{name}/{entry}"
    before = instead_of and instead_of["metadata"]["uid"]

    def look() -> Any:
        for volume in volumes(here, name):
            there = volume["spec"]["local"]["path"] == path
            if there and volume["status"].get("phase") == "Available" and volume["metadata"]["uid"] != before:
                return volume
        return None

    try:
        return wire.eventually(look, f"the volume of {path} is available", within=SECONDS)
    except AssertionError as error:
        disks = [one for one in all_disks(here) if one["spec"]["storageClassName"] == name]
        raise AssertionError(f"{error}\n{json.dumps([*disks, *volumes(here, name)], indent=1)}") from None


def all_disks(here: pods.Here) -> list[Any]:
    return list(here.api.get("/apis/localpv.dev/v1alpha1/localdisks")["items"])


def of_class(here: pods.Here, name: str) -> Any:
    return next(one for one in all_disks(here) if one["spec"]["storageClassName"] == name)


def attempt(here: pods.Here, name: str) -> int:
    """Which attempt of the cleaning runs; 0 when none does."""
    cleaning = of_class(here, name).get("status", {}).get("cleaning") or {}
    return int(cleaning["attempt"]) if cleaning.get("state") == "Running" else 0


def content(device: Path) -> bytes:
    with device.open("rb") as file:
        return file.read()


def has_file_system(device: Path) -> bool:
    return subprocess.run(["blkid", "-p", str(device)], capture_output=True, check=False).returncode == 0


def entry(here: pods.Here, name: str, entry: str = "disk") -> Any:
    """The LocalDisk of an entry; None while there is none."""
    found = (one for one in all_disks(here) if one["spec"]["storageClassName"] == name)
    return next((one for one in found if one["spec"]["entry"] == entry), None)


def told(here: pods.Here, name: str, reason: str, *, entry_name: str = "disk") -> Any:
    """The LocalDisk of an entry once it gives this reason."""

    def look() -> Any:
        disk = entry(here, name, entry_name)
        return disk if disk is not None and disk.get("status", {}).get("reason") == reason else None

    try:
        return wire.eventually(look, f"{name}/{entry_name} says {reason}", within=SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{json.dumps(entry(here, name, entry_name), indent=1)}") from None


def events(here: pods.Here, volume: Any) -> dict[str, str]:
    """What was told about a volume: the last message for each reason."""
    found = here.api.get("/api/v1/namespaces/default/events")["items"]
    uid = volume["metadata"]["uid"]
    return {one["reason"]: one["message"] for one in found if one["involvedObject"].get("uid") == uid}
