"""`localpv migrate`: volumes of the time before Kubernetes 1.10 get their node affinity into the field.

With `--release-finalizers` volumes are let go, before localpv is taken away.
"""

from __future__ import annotations

from pathlib import Path

import click

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume
from localpv.cli import common, options
from localpv.manager.migrate import affinity, finalizers


@click.command()
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option(
    "--release-finalizers",
    is_flag=True,
    help="Instead, let volumes go: take off the finalizer that keeps them until their disks are clean.",
)
@options.connection
def migrate(
    volumes: tuple[str, ...], dry_run: bool, release_finalizers: bool, kubeconfig: Path | None, context: str
) -> None:
    """Move the node affinity of volumes from the alpha annotation to the field.

    Needed once, for volumes that were made with useAlphaAPI. It can be repeated, and stopped at any time. Names of
    volumes limit it to those.
    """
    if release_finalizers:
        stuck = common.run(_release(volumes, dry_run, kubeconfig, context))
        if stuck:
            raise errors.ConfigurationError(
                f"{stuck} {'volume is' if stuck == 1 else 'volumes are'} still held", hint="see above, then run again"
            )
        return
    left = common.run(_migrate(volumes, dry_run, kubeconfig, context))
    if left:
        raise errors.ConfigurationError(
            f"{left} {'volume' if left == 1 else 'volumes'} could not be moved",
            hint="see the lines above, then run again",
        )


async def _release(names: tuple[str, ...], dry_run: bool, kubeconfig: Path | None, context: str) -> int:
    """Let volumes go; how many could not be."""
    stuck = 0
    async with common.connected(kubeconfig, context) as client:
        volumes = client.untyped(PersistentVolume.resource)
        with common.asking("list", PersistentVolume.resource):
            found = [each async for each in finalizers.survey(volumes, names)]
        for each in found:
            problem = "" if dry_run else await finalizers.release(volumes, each)
            if problem:
                stuck += 1
                click.echo(f"{each.name}: still held: {problem}")
                continue
            gone = " and is gone" if each.deleting and not each.others else ""
            unclean = ", NOT CLEANED" if each.phase not in ("Available", "Pending", "") else ""
            click.echo(
                f"{each.name}: {'would be' if dry_run else 'is'} let go{gone} ({each.phase or 'Pending'}{unclean})"
            )
    if not found:
        click.echo("No volume is held: nothing to do.")
    return stuck


async def _migrate(names: tuple[str, ...], dry_run: bool, kubeconfig: Path | None, context: str) -> int:
    """Move all; how many are left as they were."""
    moved = left = 0
    async with common.connected(kubeconfig, context) as client:
        volumes = client.untyped(PersistentVolume.resource)
        with common.asking("list", PersistentVolume.resource):
            found = [each async for each in affinity.survey(volumes) if not names or each.name in names]
        for each in found:
            problem = each if isinstance(each, affinity.Problem) else None
            if isinstance(each, affinity.Change) and not dry_run:
                problem = await affinity.apply(volumes, each)
            if problem is not None:
                left += 1
                click.echo(f"{problem.name}: left as it is: {problem.message}")
            else:
                moved += 1
                click.echo(f"{each.name}: {'would be moved' if dry_run else 'moved'}")
    if not found:
        click.echo("No volume has the annotation: nothing to do.")
    elif moved:
        click.echo(f"{moved} {'would be moved' if dry_run else 'moved'}.")
    return left
