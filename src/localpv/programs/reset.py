"""`localpv reset`: what is localpv's own removed from this machine, and nothing else.

Removed is what has a known name in the data folder, by descriptors and never across a mount. The database goes first,
before all else in it. An engine does not start on what a reset that was cut off has left: images may be half there.
What is on disks is not touched. Those that were claimed get their mark before the database goes, if no pod has given
them one: they are not offered again before they are wiped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume
from localpv.engine.kubelet import access
from localpv.engine.kubelet.paths import FOLDER, RUN_FOLDER, KubeletPaths
from localpv.engine.kubelet.records import Records
from localpv.engine.kubelet.volumes.identity_check import identity_of
from localpv.host.marks import FILE, DiskMarks, Mark
from localpv.host.mounts import KernelMounts
from localpv.host.runc import RuncContainers
from localpv.host.trees import KernelTrees
from localpv.host.workers import Workers
from localpv.programs import demo, down, serving, stored
from localpv.programs.down import Say

OWN = {
    stored.FILE: "all objects of the API",
    f"{stored.FILE}-wal": "",
    f"{stored.FILE}-shm": "",
    FOLDER: "images, containers, logs and emptyDirs of pods",
    "agent": "locks of the agent",
    demo.FOLDER: "the disks of the demo, with what is on them",
    "auth": "keys and the administrator's token",
    "tls": "certificates",
    "kubeconfig": "",
    "lock": "",
    serving.RESET_BEGUN: "",
}
"""Everything that localpv puts into its data folder, in the order in which it goes, and what it is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a reset would do."""

    removes: tuple[str, ...]
    stays: tuple[str, ...]
    """What is on disks of volumes, which nobody touches."""


async def look(data: Path) -> Plan:
    """What would be removed; DeviceBusy, with what is in the way, while a pod runs or anything is mounted."""
    _refuse_others_folder(data)
    with down.locked(data):
        found = stored.read(data)
        await _refuse_users(data)
        return Plan(removes=tuple(_removes(data)), stays=tuple(_stays(found.volumes, data)))


async def run(data: Path, *, say: Say) -> None:
    """Remove it all. What is gone already is no error."""
    folder, trees = Path(os.path.realpath(data)), KernelTrees(workers=Workers(), mounts=KernelMounts())
    paths = KubeletPaths.of(data)
    _refuse_others_folder(data)
    with down.locked(data):
        await _refuse_users(data)  # once more: a person may have thought about the question for an hour
        await _mark(stored.read(data).volumes, say=say)
        (folder / serving.RESET_BEGUN).touch()
        if paths.run.exists():
            await _remove(paths.run, inside=paths.run.parent, trees=trees)
        for name in OWN:
            await _remove(folder / name, inside=folder, trees=trees)
    if left := _entries(folder):
        say(f"{folder} stays, because it holds what is not localpv's: {', '.join(left[:5])}")
    else:
        with contextlib.suppress(OSError):  # gone already, or somebody begins anew in it
            folder.rmdir()
    say("Everything of localpv is removed. Disks were not touched.")


def _refuse_others_folder(data: Path) -> None:
    """ConfigurationError for a folder that no engine had: names such as auth and demo are others' too."""
    folder = Path(os.path.realpath(data))
    if any((folder / sign).exists() for sign in (stored.FILE, f"{FOLDER}/{RUN_FOLDER}", serving.RESET_BEGUN)):
        return
    if found := [name for name in OWN if name != "lock" and os.path.lexists(folder / name)]:
        raise errors.ConfigurationError(
            f"{folder} has no database of localpv, so {', '.join(found)} may be somebody else's; nothing was removed",
            hint="name the folder of `localpv up` with --data; what is left of one must be removed by hand",
        )


async def _refuse_users(data: Path) -> None:
    reasons = []
    for paths in (KubeletPaths.of(data), KubeletPaths.before(data)):
        records = Records(paths)
        records.load()
        pods = access.running(records, RuncContainers(state=paths.runtime, workers=Workers()))
        reasons += [f"pod {name} runs" for name in pods.values()]
        reasons += [f"container {id_} is there" for id_ in _entries(paths.runtime) if id_.partition(".")[0] not in pods]
        reasons += [f"the device of volume {name} is held" for name in _entries(paths.layout.global_maps)]
    reasons += [f"{place} is mounted" for place in await down.mounted(data)]
    if reasons:
        more = f", and {len(reasons) - 5} more" if len(reasons) > 5 else ""
        raise errors.DeviceBusy(
            f"nothing was removed, because volumes are in use: {'; '.join(reasons[:5])}{more}",
            hint=f"end the pods and unmount everything with `localpv down --data {data}`",
        )


def _removes(data: Path) -> list[str]:
    shown = [f"{data / name}: {what}" for name, what in OWN.items() if what and os.path.lexists(data / name)]
    run = KubeletPaths.of(data).run
    return [*shown, f"{run}: the folder for mounts, in which nothing is mounted"] if run.exists() else shown


def _stays(volumes: Sequence[PersistentVolume], data: Path) -> list[str]:
    of_demo = Path(os.path.realpath(data), demo.FOLDER)  # goes with all that is in it
    shown = []
    for one in volumes:
        local, claim = one.spec.local, one.spec.claim_ref
        if local is not None and claim is not None and not Path(local.path).is_relative_to(of_demo):
            shown.append(f"{local.path}: volume {one.metadata.name} of claim {claim.namespace}/{claim.name}")
    return shown


async def _mark(volumes: Sequence[PersistentVolume], *, say: Say) -> None:
    """Mark what was claimed: from now on nothing else tells that somebody had it. What cannot be marked is told."""
    marks = DiskMarks(workers=Workers())
    for one in volumes:
        local, claim, meta = one.spec.local, one.spec.claim_ref, one.metadata
        if local is None or claim is None:
            continue
        path, mark = Path(local.path), Mark(volume=meta.name, uid=meta.uid)
        try:
            if (identity := identity_of(one)) is None:
                continue  # somebody wrote the volume by hand, and nobody offers its disk by itself
            if path.is_dir() and identity.mount_id and not path.is_mount():
                raise errors.HostError("nothing is mounted there")
            if path.is_dir():
                marked = await marks.mark_directory(path, mark)
            elif (marked := path.parent.is_dir()) and not (path.parent / f"{FILE}{meta.uid}").exists():
                await marks.mark_device(path, replace(mark, entry=path.name, identity=identity))
            problem = "" if marked else "there is no room for a mark"
        except (errors.LocalpvError, OSError) as error:
            problem = str(error)
        if problem:
            say(f"{path} could not be marked as used, look at it before it is offered again: {problem}")


async def _remove(path: Path, *, inside: Path, trees: KernelTrees) -> None:
    """Remove a file, a link, or a folder with all that is in it; nothing there is no error."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            await trees.empty(path, inside=inside)
            path.rmdir()
        else:
            path.unlink()


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
