"""`localpv migrate`: volumes of the time before Kubernetes 1.10 get their node affinity into the field."""

from __future__ import annotations

from pathlib import Path

import click

from localpv import errors
from localpv.api.kinds import PersistentVolume
from localpv.cli import common
from localpv.lifecycle.migrate import affinity


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@common.connection_options
def migrate(dry_run: bool, kubeconfig: Path | None, context: str) -> None:
    """Move the node affinity of volumes from the alpha annotation to the field.

    Needed once, for volumes that were made with useAlphaAPI. It can be repeated, and stopped at any time.
    """
    left = common.run(_migrate(dry_run, kubeconfig, context))
    if left:
        raise errors.ConfigurationError(
            f"{left} {'volume' if left == 1 else 'volumes'} could not be moved",
            hint="see the lines above, then run again",
        )


async def _migrate(dry_run: bool, kubeconfig: Path | None, context: str) -> int:
    """Move all; how many are left as they were."""
    moved = left = 0
    async with common.connected(kubeconfig, context) as client:
        volumes = client.untyped(PersistentVolume.resource)
        with common.asking("list", PersistentVolume.resource):
            found = [each async for each in affinity.survey(volumes)]
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
