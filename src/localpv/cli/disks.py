"""`localpv disks`: the disks of all nodes, as lsblk shows those of one; and which disk a person means.

Any of its names will do, as long as it is one disk.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from localpv import errors
from localpv.api.kinds.localdisk import LocalDisk
from localpv.cli import common, describe, options, tables
from localpv.client.client import Client
from localpv.client.objects import Selection

Column = tables.Column[LocalDisk]

COLUMNS: tuple[Column, ...] = (
    Column("NODE", lambda disk: disk.spec.node_name),
    Column("NAME", lambda disk: disk.spec.entry),
    Column("SIZE", describe.size, right=True),
    Column("TYPE", lambda disk: disk.status.kind),
    Column("MEDIUM", lambda disk: disk.status.medium),
    Column("MODEL", lambda disk: disk.status.identity.model if disk.status.identity else ""),
    Column("CLASS", lambda disk: disk.spec.storage_class_name),
    Column("PHASE", lambda disk: disk.status.phase),
    Column("VOLUME", lambda disk: disk.spec.volume.name if disk.spec.volume else ""),
    Column("REASON", describe.reason),
    Column("PATH", lambda disk: disk.spec.path, wide=True),
    Column("SERIAL", lambda disk: disk.status.identity.serial if disk.status.identity else "", wide=True),
    Column("AGE", lambda disk: tables.age(disk.metadata.creation_timestamp), wide=True),
    Column("LOCALDISK", lambda disk: disk.metadata.name, wide=True),
)

BY_ID = "/dev/disk/by-id/"
MOST_NAMED = 8


@click.command()
@options.which("disks")
@options.output
@click.option(
    "-w", "--watch", is_flag=True, help="Stay and show what changes, with bars for disks that are being wiped."
)
@options.connection
def disks(node: str, storage_class: str, form: str, watch: bool, kubeconfig: Path | None, context: str) -> None:
    """Show the disks of all nodes, and what they are used for."""
    common.run(_disks(node, storage_class, form, watch, kubeconfig, context))


async def _disks(node: str, storage_class: str, form: str, watch: bool, kubeconfig: Path | None, context: str) -> None:
    chosen = selection(node, storage_class)
    async with common.connected(kubeconfig, context) as client:
        if watch:
            from localpv.cli.watch import follow

            # A cache would try for ever; what a person can mend is told at once.
            await read(client, chosen)
            with common.asking("watch", LocalDisk.resource):
                await follow(client, chosen, form)
        elif form in ("json", "yaml"):
            with common.asking("list", LocalDisk.resource):
                found = (await client.untyped(LocalDisk.resource).list(chosen)).items
            common.write_objects(found, form)
        else:
            shown = in_order(await read(client, chosen))
            if shown:
                tables.write(COLUMNS, shown, wide=form == "wide", colour=common.in_colour())
            else:
                click.echo(nothing_found(node, storage_class), err=True)


def selection(node: str, storage_class: str) -> Selection:
    wanted = {"spec.nodeName": node, "spec.storageClassName": storage_class}
    return Selection(fields=",".join(f"{field}={value}" for field, value in wanted.items() if value))


async def read(client: Client, chosen: Selection) -> list[LocalDisk]:
    with common.asking("list", LocalDisk.resource):
        return (await client.objects(LocalDisk).list(chosen)).items


def in_order(found: Iterable[LocalDisk]) -> list[LocalDisk]:
    """By node, then by name, with sdb10 behind sdb9."""
    return sorted(found, key=lambda disk: (disk.spec.node_name, _natural(disk.spec.entry), disk.metadata.name))


def _natural(text: str) -> list[tuple[int, int, str]]:
    import re

    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def nothing_found(node: str, storage_class: str) -> str:
    where = "".join((f" on node {node}" if node else "", f" in class {storage_class}" if storage_class else ""))
    return f"No disks{where}. Disks appear when an agent runs on a node and finds something in its discovery directory."


def named(word: str, disks: Sequence[LocalDisk], *, device: tuple[str, str] | None = None) -> LocalDisk:
    """The one disk that a word names, in full or by a beginning that no other has.

    `device` is node and major:minor of the device that the word is the path of, on the machine we run on.
    """
    by_name = [each for each in disks if each.metadata.name == word]
    if by_name:
        return by_name[0]
    exact = [each for each in disks if word in _names(each)]
    if not exact and device is not None:
        node, number = device
        exact = [each for each in disks if each.spec.node_name == node and number in _numbers(each)]
    found = exact or [each for each in disks if any(name.startswith(word) for name in _names(each)) and word]
    if len(found) == 1:
        return found[0]
    if found:
        raise errors.ConfigurationError(
            f"{word} is not the name of one disk but of {len(found)}", hint=f"name one of: {_listed(found)}"
        )
    if not disks:
        raise errors.ConfigurationError(
            f"there is no disk {word}: there are no disks at all", hint="see that an agent runs on each node"
        )
    raise errors.ConfigurationError(f"there is no disk {word}", hint="see which there are: localpv disks")


def local_device(word: str) -> tuple[str, str] | None:
    """Node and number of a device of this machine, if the word is the path of one."""
    if not word.startswith("/"):
        return None
    try:
        found = os.stat(word)
    except OSError:
        return None
    if not stat.S_ISBLK(found.st_mode):
        return None
    return socket.gethostname().lower(), f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def _names(each: LocalDisk) -> Iterable[str]:
    """What a disk is called, most telling first."""
    spec, identity = each.spec, each.status.identity
    yield from (each.metadata.name, spec.entry, f"{spec.node_name}/{spec.entry}", spec.path)
    if spec.volume:
        yield spec.volume.name
    if identity is None:
        return
    for name in identity.by_id:
        yield name
        yield name.removeprefix(BY_ID) if name.startswith(BY_ID) else BY_ID + name
    yield from filter(None, (identity.wwn, identity.serial, identity.part_uuid, identity.fs_uuid))


def _numbers(each: LocalDisk) -> Iterable[str]:
    return (each.status.identity.major_minor,) if each.status.identity else ()


def _listed(found: Sequence[LocalDisk]) -> str:
    """Disks by node and entry; by their full names where that does not tell them apart."""
    short = [describe.short_name(each) for each in found]
    names = short if len(set(short)) == len(short) else [each.metadata.name for each in found]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(sorted(names)[:MOST_NAMED]) + more
