"""`localpv wipe DISK`: order a cleaning by hand, and see it through.

The order is all that is written; the agent of the node does the work and makes its own checks. So this command may end
at any time, and the wiping goes on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import CleaningState, LocalDisk, LocalDiskSpec, Phase
from localpv.api.kinds.volumes import PersistentVolume
from localpv.api.objects import new_uid
from localpv.cli import common, describe, explain, options, progress, tables
from localpv.client.client import Client
from localpv.disk import labels
from localpv.disk.records.api import ApiRecords


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done to which disk, as things are now."""

    disk: LocalDisk
    volume: PersistentVolume | None
    """The Released volume whose data goes, if it still exists."""

    spec: LocalDiskSpec | None
    """The disk's spec with the order in it; None when it is being wiped already."""


@click.command()
@click.argument("disk", metavar="DISK")
@click.option("--method", default="", help="Built-in method, with its argument. [default: the one of the disk's class]")
@options.unasked
@options.connection
def wipe(disk: str, method: str, yes: bool, kubeconfig: Path | None, context: str) -> None:
    """Destroy what is on a disk that nobody uses, so that it is offered again.

    DISK is any name that `localpv explain` takes. Retained volumes, disks that were not cleaned and those whose
    cleaning failed can be wiped; a disk that is bound, mounted or offered is refused.
    """
    words = tuple(shlex.split(method))
    plan = common.run(_look(disk, words, kubeconfig, context))
    if plan.spec is not None:
        click.echo("\n".join(announcement(plan, words)))
        if not yes:
            _confirm(plan.disk)
    else:
        click.echo(f"{describe.short_name(plan.disk)} is to be wiped already.")
    try:
        common.run(_order_and_see(plan.disk.metadata.name, words, kubeconfig, context))
    except KeyboardInterrupt:
        click.echo(
            f"\nThe wiping of {describe.short_name(plan.disk)} goes on without this command."
            " See how far it is: localpv disks --watch",
            err=True,
        )
        raise


async def _look(word: str, method: Sequence[str], kubeconfig: Path | None, context: str) -> Plan:
    async with common.connected(kubeconfig, context) as client:
        disk = await explain.find(client, word)
        return make_plan(disk, await _volumes(client), method)


async def _order_and_see(name: str, method: Sequence[str], kubeconfig: Path | None, context: str) -> None:
    async with common.connected(kubeconfig, context) as client:
        # Looked at anew: a person may have thought about the question for an hour.
        disk = await client.objects(LocalDisk).get(name)
        plan = make_plan(disk, await _volumes(client), method)
        if plan.spec is not None:
            disk = await _order(client, disk, plan.spec)
        await progress.until_verified(client, disk)
    if plan.volume is not None and describe.policy_of(plan.volume) == "Retain":
        name = plan.volume.metadata.name
        click.echo(
            f"Volume {name} is kept (Retain). When it is deleted the disk is offered again: kubectl delete pv {name}"
        )


async def _order(client: Client, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
    """Write the order, if the disk still is as it was looked at."""
    records, done = ApiRecords(client), disk.status.cleaning
    with common.asking("patch", LocalDisk.resource):
        verified = done is not None and done.state == CleaningState.VERIFIED
        if done is not None and spec.clean is not None and verified and done.volume_uid == spec.clean.volume_uid:
            # What was verified for the same volume once must not pass for this order. If we die here, the agent goes on
            # with the order there is, or nothing happens. What failed stays until the order is there: without it the
            # agent would begin at once with the order before, and this one would come too late.
            disk = await records.write_status(disk, msgspec.structs.replace(disk.status, cleaning=None))
        return await records.write_spec(disk, spec)


async def _volumes(client: Client) -> list[PersistentVolume]:
    # All of them: a volume that somebody else made for the same path must not lose its data either.
    with common.asking("list", PersistentVolume.resource):
        return (await client.objects(PersistentVolume).list()).items


def make_plan(disk: LocalDisk, volumes: Iterable[PersistentVolume], method: Sequence[str] = ()) -> Plan:
    """What to order for a disk; ConfigurationError, with who has it, when it must not be wiped."""
    from localpv.agent.clean.orders import order_by_hand

    who, phase = describe.short_name(disk), disk.status.phase
    own: PersistentVolume | None = None
    for volume in volumes:
        if not _on(volume, disk):
            continue
        _refuse_unless_released(who, volume, disk)
        own = volume
    if phase == Phase.IN_USE:
        why = describe.sentence(disk.status.message) or "it is mounted"
        raise errors.ConfigurationError(
            f"{who} is in use on node {disk.spec.node_name}: {why}", hint="stop what uses it"
        )
    if phase == Phase.MISSING:
        raise errors.ConfigurationError(f"{who} is not there: {describe.sentence(disk.status.message)}")
    wiping = describe.current(disk)
    if disk.spec.clean is not None and (wiping is None or wiping.state != CleaningState.FAILED):
        if method and tuple(method) != disk.spec.clean.method:
            raise errors.ConfigurationError(
                f"{who} is to be wiped already, with {' '.join(disk.spec.clean.method) or 'the method of its class'}",
                hint="leave --method out to see how far it is",
            )
        return Plan(disk, own, None)
    offerable = phase in (Phase.AVAILABLE, Phase.PUBLISHED) and describe.trouble(disk)[0] != labels.NOT_ERASED
    if disk.spec.volume is None and disk.spec.clean is None and offerable:
        raise errors.ConfigurationError(
            f"{who} is about to be offered", hint="to keep it from being offered take it out of its directory"
        )
    if disk.spec.volume is not None and own is None and not disk.spec.volume.uid:
        raise errors.ConfigurationError(f"{who} is about to be offered as volume {disk.spec.volume.name}")
    # An order that failed gives way to this one: same volume, perhaps another method.
    unordered = msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, clean=None))
    spec = order_by_hand(unordered, method, now=datetime.now(UTC), token=new_uid(), volume_released=True)
    claim = own.spec.claim_ref if own is not None and describe.policy_of(own) != "Retain" else None
    claim_uid = disk.spec.clean.claim_uid if disk.spec.clean else claim.uid if claim else ""
    if claim_uid and spec.clean is not None:
        # Else the manager would take it for the order of an earlier claim and give its own again. Of a volume that is
        # retained it knows by the missing claim that a person wants this.
        spec = msgspec.structs.replace(spec, clean=msgspec.structs.replace(spec.clean, claim_uid=claim_uid))
    return Plan(disk, own, spec)


def _on(volume: PersistentVolume, disk: LocalDisk) -> bool:
    """Whether a volume lies on a disk: it is the one that offers it, or has its path on its node."""
    offered = disk.spec.volume
    if offered is not None and volume.metadata.name == offered.name and offered.uid in ("", volume.metadata.uid):
        return True
    if volume.spec.local is None or volume.spec.local.path.rstrip("/") != disk.spec.path.rstrip("/"):
        return False
    nodes = {*filter(None, describe.node_of(volume).split(",")), volume.metadata.labels.get(labels.NODE, "")}
    # A volume that says nothing of its node might be on this one.
    return disk.spec.node_name in nodes or nodes == {""}


def _refuse_unless_released(who: str, volume: PersistentVolume, disk: LocalDisk) -> None:
    name, phase = volume.metadata.name, volume.status.phase
    match phase:
        case "Released":
            return
        case "Bound":
            raise errors.ConfigurationError(
                f"{who} is in use: volume {name} is bound to claim {describe.claim_of(volume)}",
                hint=f"delete the claim {describe.claim_of(volume)} first, when its data is no longer needed",
            )
        case "Available":
            raise errors.ConfigurationError(
                f"{who} is offered as volume {name}, which any claim may take at any time",
                hint=_of_offered(disk),
            )
    raise errors.ConfigurationError(
        f"{who} has the volume {name}, which is {phase or 'Pending'}",
        hint="it can be wiped when it is Released or gone",
    )


def _of_offered(disk: LocalDisk) -> str:
    """What is known of a disk that is offered and that nobody has claimed."""
    last = disk.status.cleaning
    if last is not None and last.state == CleaningState.VERIFIED:
        return f"it was cleaned at {last.finished_at} and nobody has had it since; there is nothing to wipe"
    return (
        "localpv has not cleaned it so far, and what it held when it was found is still on it;"
        " it is wiped when a claim has had it and is gone"
    )


def announcement(plan: Plan, method: Sequence[str]) -> list[str]:
    """What will be destroyed, and how."""
    disk = plan.disk
    known = disk.spec.identity or disk.status.identity
    volume = "none"
    if plan.volume is not None:
        last = describe.claim_of(plan.volume)
        volume = f"{plan.volume.metadata.name}, Released" + (f"; it was of claim {last}" if last else "")
    elif disk.spec.volume is not None:
        volume = f"{disk.spec.volume.name}, which was deleted"
    rows = (
        ("disk", f"{disk.spec.path} on node {disk.spec.node_name}: {describe.what(disk)}"),
        ("identity", describe.identity(known)),
        ("volume", volume),
        ("method", " ".join(method) or f"the one of class {disk.spec.storage_class_name}"),
    )
    return [
        f"Everything on {describe.short_name(disk)} will be destroyed:",
        *(f"  {label:<10}{tables.shown(text)}" for label, text in rows),
    ]


def _confirm(disk: LocalDisk) -> None:
    names = (disk.spec.entry, disk.metadata.name, describe.short_name(disk))
    hint = "type the name to confirm, or pass --yes"
    try:
        typed = click.prompt(f"Type {tables.shown(disk.spec.entry)} to wipe it", default="", show_default=False)
    except click.Abort:
        click.echo(err=True)
        raise errors.ConfigurationError("not confirmed: nothing was done", hint=hint) from None
    if typed.strip() not in names:
        raise errors.ConfigurationError("another name was typed: nothing was done", hint=hint)
