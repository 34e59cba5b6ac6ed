"""`localpv explain DISK`: why a disk is or is not offered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from localpv import errors
from localpv.api.kinds.cluster import Event
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.cli import common, describe, disks, options, rule, tables
from localpv.client.client import Client
from localpv.client.objects import EVERYTHING, Selection

EVENTS_SHOWN = 5
EVENTS_NAMESPACE = "default"
"""Where events about objects without a namespace are."""

NOT_ALLOWED = "not shown: you may not read them"


@click.command()
@click.argument("disk", metavar="DISK")
@options.connection
def explain(disk: str, kubeconfig: Path | None, context: str) -> None:
    """Say why a disk is or is not offered.

    DISK is the name of the LocalDisk, of its entry (also NODE/ENTRY) or of its volume, its path, a by-id name, a serial
    number or, on its own node, a device; the beginning is enough when no other disk has it. Of a device that is no disk
    (sdb, NODE/sdb) it says which LocalStorage does not mean it, and why.
    """
    common.run(_explain(disk, kubeconfig, context))


async def _explain(word: str, kubeconfig: Path | None, context: str) -> None:
    async with common.connected(kubeconfig, context) as client:
        try:
            found = await find(client, word)
        except errors.ConfigurationError:
            # A device of a node that no LocalDisk stands for: rules may say why.
            if not (sentences := await rule.of_device(client, word)):
                raise
            for sentence in sentences:
                click.echo(tables.shown(sentence))
            return
        volume, known = await _volume(client, found)
        lines = [
            ("disk", f"{found.spec.path} on node {found.spec.node_name}: {describe.what(found)}"),
            ("identity", describe.identity(found.status.identity)),
            ("rule", await rule.of_disk(client, found)),
            ("class", f"{found.spec.storage_class_name}, volumes of mode {found.spec.volume_mode}"),
            ("why", describe.trouble(found)[1] or ("" if describe.is_taken(known) else found.status.message)),
            ("caution", describe.caution(found)),
            ("to do", describe.hint(found)),
            ("cleaning", describe.cleaning(found)),
            ("volume", volume),
            ("risk", describe.risk(found)),
        ]
        events = await _events(client, found)
    colour = common.in_colour()
    head = f"{describe.short_name(found)} {describe.verdict(found, known)}."
    click.echo(click.style(head, bold=True) if colour else head, color=colour)
    click.echo(f"  {'name':<10}{found.metadata.name}")
    for label, text in lines:
        if text:
            click.echo(f"  {label:<10}{tables.shown(text)}")
    for place, text in enumerate(events):
        click.echo(f"  {'events' if place == 0 else '':<10}{tables.shown(text)}")


async def find(client: Client, word: str) -> LocalDisk:
    """The disk that a person means."""
    return disks.named(word, await disks.read(client, EVERYTHING), device=disks.local_device(word))


async def _volume(client: Client, disk: LocalDisk) -> tuple[str, PersistentVolume | None]:
    """What there is to say about the volume of a disk, and the volume itself where it can be read."""
    offered = disk.spec.volume
    if offered is None:
        return "none", None
    try:
        volume = await client.objects(PersistentVolume).find(offered.name)
    except errors.Forbidden:
        return f"{offered.name} ({NOT_ALLOWED})", None
    if volume is None:
        return f"{offered.name}, which " + ("was deleted" if offered.uid else "is about to be created"), None
    if offered.uid and volume.metadata.uid != offered.uid:
        return f"{offered.name}, which was deleted; there is another one of that name", None
    claim = await _claim(client, volume)
    phase = volume.status.phase or "Pending"
    return f"{offered.name}, {phase}{claim}: {describe.next_step(volume, disk)}", volume


async def _claim(client: Client, volume: PersistentVolume) -> str:
    reference = volume.spec.claim_ref
    if reference is None:
        return ""
    try:
        claim = await client.objects(PersistentVolumeClaim).find(reference.name, reference.namespace)
    except errors.Forbidden:
        claim = None
        gone = ""
    else:
        gone = " (deleted)" if claim is None or (reference.uid and claim.metadata.uid != reference.uid) else ""
    return f", claim {describe.claim_of(volume)}{gone}"


async def _events(client: Client, disk: LocalDisk) -> Sequence[str]:
    """The latest events of the disk and its volume, oldest first."""
    about = [("LocalDisk", disk.metadata.name)]
    if disk.spec.volume:
        about.append(("PersistentVolume", disk.spec.volume.name))
    found: list[Event] = []
    try:
        for kind, name in about:
            fields = f"involvedObject.kind={kind},involvedObject.name={name}"
            chosen = Selection(namespace=EVENTS_NAMESPACE, fields=fields)
            found += (await client.objects(Event).list(chosen)).items
    except errors.Forbidden:
        return [NOT_ALLOWED]
    found.sort(key=_when)
    return [event_text(event) for event in found[-EVENTS_SHOWN:]] or ["none"]


def _when(event: Event) -> str:
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""


def event_text(event: Event) -> str:
    times = f" ({event.count} times)" if event.count > 1 else ""
    warning = "Warning " if event.type == "Warning" else ""
    return f"{tables.age(_when(event))} ago: {warning}{event.reason}{times}: {describe.sentence(event.message)}"
