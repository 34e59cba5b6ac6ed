"""Options that several commands take, each declared once; nothing is loaded for them but click."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


class Option(Protocol):
    """One option or several, as a decorator."""

    def __call__(self, command: Command, /) -> Command: ...


FORMATS = ("table", "wide", "json", "yaml")


def path(name: str, *, help: str, default: Path | None = None) -> Option:
    """A file or folder; where a default is None, the help says what happens without one."""
    return click.option(
        name, type=click.Path(path_type=Path), default=default, show_default=default is not None, help=help
    )


def data(what: str) -> Option:
    return path("--data", help=f"{what} [default: /var/lib/localpv for root, else the XDG data folder]")


def together(*options: Option) -> Option:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def which(what: str) -> Option:
    """Those of one node, of one class."""
    return together(
        click.option("--node", default="", help=f"Only the {what} of this node. [default: all nodes]"),
        click.option(
            "--class", "storage_class", default="", help=f"Only the {what} of this StorageClass. [default: all classes]"
        ),
    )


connection = together(
    path(
        "--kubeconfig",
        help="File that says which API server to ask, and as whom. [default: as kubectl, then the local `localpv up`]",
    ),
    click.option("--context", default="", help="Context of the kubeconfig. [default: its current one]"),
)
"""As kubectl has them."""

output = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="A table, a wider one, or the objects as they are.",
)

log_level = click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="What is logged on stderr.",
)

unasked = click.option("--yes", is_flag=True, help="Do not ask.")


def start_logging(level: str) -> None:
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
