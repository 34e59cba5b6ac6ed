"""`localpv disks`: the disks of all nodes, as lsblk shows those of one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from localpv.api.kinds.localdisk import LocalDisk
from localpv.cli import common, describe, tables
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


@click.command()
@click.option("--node", default="", help="Only the disks of this node. [default: all nodes]")
@click.option(
    "--class", "storage_class", default="", help="Only the disks of this StorageClass. [default: all classes]"
)
@common.output_option
@click.option(
    "-w", "--watch", is_flag=True, help="Stay and show what changes, with bars for disks that are being wiped."
)
@common.connection_options
def disks(node: str, storage_class: str, form: str, watch: bool, kubeconfig: Path | None, context: str) -> None:
    """Show the disks of all nodes, and what they are used for."""
    common.run(_disks(node, storage_class, form, watch, kubeconfig, context))


async def _disks(node: str, storage_class: str, form: str, watch: bool, kubeconfig: Path | None, context: str) -> None:
    chosen = selection(node, storage_class)
    async with common.connected(kubeconfig, context) as client:
        if watch:
            from localpv.cli import watching

            # A cache would try for ever; what a person can mend is told at once.
            await read(client, chosen)
            with common.asking("watch", LocalDisk.resource):
                await watching.follow(client, chosen, form)
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
