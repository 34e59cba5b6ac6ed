"""`localpv volumes`: the volumes that localpv offers, and what happens with each next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.volumes import PersistentVolume
from localpv.cli import common, describe, options, tables
from localpv.client.client import Client


@dataclass(frozen=True, slots=True)
class Row:
    volume: PersistentVolume
    disk: LocalDisk | None


Column = tables.Column[Row]

COLUMNS: tuple[Column, ...] = (
    Column("NAME", lambda row: row.volume.metadata.name),
    Column("SIZE", lambda row: row.volume.spec.capacity.get("storage", ""), right=True),
    Column("NODE", lambda row: describe.node_of(row.volume)),
    Column("DISK", lambda row: row.disk.spec.entry if row.disk else ""),
    Column("CLASS", lambda row: row.volume.spec.storage_class_name),
    Column("CLAIM", lambda row: describe.claim_of(row.volume)),
    Column("PHASE", lambda row: row.volume.status.phase),
    Column("MODE", lambda row: row.volume.spec.volume_mode or "Filesystem", wide=True),
    Column("POLICY", lambda row: describe.policy_of(row.volume), wide=True),
    Column("PATH", lambda row: row.volume.spec.local.path if row.volume.spec.local else "", wide=True),
    Column("LOCALDISK", lambda row: row.disk.metadata.name if row.disk else "", wide=True),
    Column("AGE", lambda row: tables.age(row.volume.metadata.creation_timestamp), wide=True),
    Column("NEXT", lambda row: describe.next_step(row.volume, row.disk)),
)


@click.command()
@options.which("volumes")
@options.output
@options.connection
def volumes(node: str, storage_class: str, form: str, kubeconfig: Path | None, context: str) -> None:
    """Show the volumes that localpv offers, who has them, and what happens next."""
    common.run(_volumes(node, storage_class, form, kubeconfig, context))


async def _volumes(node: str, storage_class: str, form: str, kubeconfig: Path | None, context: str) -> None:
    async with common.connected(kubeconfig, context) as client:
        disks = await _disks_of_volumes(client)

        def wanted(volume: PersistentVolume) -> bool:
            return (
                (describe.is_ours(volume) or volume.metadata.name in disks)
                and (not node or node in describe.node_of(volume).split(","))
                and (not storage_class or volume.spec.storage_class_name == storage_class)
            )

        with common.asking("list", PersistentVolume.resource):
            if form in ("json", "yaml"):
                every = (await client.untyped(PersistentVolume.resource).list()).items
                common.write_objects((obj for obj in every if wanted(msgspec.convert(obj, PersistentVolume))), form)
                return
            found = [volume for volume in (await client.objects(PersistentVolume).list()).items if wanted(volume)]
    shown = in_order(Row(volume, _its_disk(volume, disks)) for volume in found)
    if shown:
        tables.write(COLUMNS, shown, wide=form == "wide", colour=common.in_colour())
        click.echo("A pod runs only on the node of its volume, and the data is as safe as that one disk.", err=True)
    else:
        click.echo("No volumes of localpv. See what there is to offer: localpv disks", err=True)


async def _disks_of_volumes(client: Client) -> Mapping[str, LocalDisk]:
    """Disks by the name of their volume. Without the kind, or the right to read it, volumes are shown all the same."""
    try:
        found = (await client.objects(LocalDisk).list()).items
    except (errors.NotFound, errors.Forbidden):
        return {}
    return {disk.spec.volume.name: disk for disk in found if disk.spec.volume}


def _its_disk(volume: PersistentVolume, disks: Mapping[str, LocalDisk]) -> LocalDisk | None:
    """The disk behind a volume, unless it speaks of an earlier volume of the same name."""
    disk = disks.get(volume.metadata.name)
    if disk is None or disk.spec.volume is None:
        return None
    return disk if disk.spec.volume.uid in ("", volume.metadata.uid) else None


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (describe.node_of(row.volume), row.volume.metadata.name))
