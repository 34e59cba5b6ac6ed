"""`localpv down` and `localpv reset`: the way back from `localpv up`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from localpv import errors
from localpv.cli import options, tables

MOST_SHOWN = 20


@click.command()
@options.data("Folder of the `localpv up`.")
@click.option(
    "--grace-period",
    type=click.IntRange(min=0),
    default=None,
    help="Seconds that pods have to end. [default: those that each pod asks for]",
)
def down(data: Path | None, grace_period: int | None) -> None:
    """Stop the engine of this machine, end its pods and unmount their volumes.

    Data, objects and volumes stay: `localpv up` goes on with them. Works also when the engine has stopped or was killed
    and its pods run on; can be repeated.
    """
    from localpv.programs import down as program

    asyncio.run(program.run(_folder(data), grace_seconds=grace_period, say=click.echo))


@click.command()
@options.data("Folder of the `localpv up`.")
@options.unasked
def reset(data: Path | None, yes: bool) -> None:
    """Remove everything that is localpv's own from this machine, to start over.

    Refused while a pod runs or anything is mounted. Disks are not touched: what tenants left on them stays, and those
    that were in use are not offered again before they are wiped.
    """
    from localpv.programs import reset as program

    folder = _folder(data)
    plan = asyncio.run(program.look(folder))
    _show("Will be removed:", plan.removes or ("nothing: there is no data folder",))
    if plan.stays:
        _show("Stays on the disks, and is not offered again before `localpv wipe`:", plan.stays)
    if not yes:
        _confirm(folder)
    asyncio.run(program.run(folder, say=click.echo))


def _folder(data: Path | None) -> Path:
    from localpv.cli.main import default_data

    return Path(os.path.realpath(data or default_data()))


def _show(title: str, lines: tuple[str, ...]) -> None:
    click.echo(title)
    for line in lines[:MOST_SHOWN]:
        click.echo(f"  {tables.shown(line)}")
    if len(lines) > MOST_SHOWN:
        click.echo(f"  and {len(lines) - MOST_SHOWN} more")


def _confirm(folder: Path) -> None:
    hint = "answer y to confirm, or pass --yes"
    try:
        if click.confirm(f"Remove everything of localpv in {folder}?"):
            return
    except click.Abort:
        click.echo(err=True)
    raise errors.ConfigurationError("not confirmed: nothing was done", hint=hint)
