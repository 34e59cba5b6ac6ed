"""`localpv` and `kubectl localpv`; each command is loaded only when it is called."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localpv import __version__
from localpv.cli import options
from localpv.errors import ConfigurationError, LocalpvError

if TYPE_CHECKING:
    from localpv.engine.apiserver.server import Settings

COMMANDS = {
    "agent": "daemons",
    "bootstrap": "bootstrap",
    "discoverer": "daemons",
    "disks": "disks",
    "down": "stop",
    "explain": "explain",
    "image": "image",
    "manager": "daemons",
    "manifests": "manifests",
    "migrate": "migrate",
    "operator": "daemons",
    "provisioner": "daemons",
    "reset": "stop",
    "translate": "translate",
    "volumes": "volumes",
    "wipe": "wipe",
}
"""Commands and the modules they are in, loaded when called: an agent has no use for tables, nor their memory."""

GATES = {"PersistentLocalVolumes": "persistent_local_volumes"}


class LazyGroup(click.Group):
    """`elsewhere` says in which module of localpv.cli a command of that name is."""

    def __init__(self, *args: Any, elsewhere: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._elsewhere = elsewhere

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._elsewhere})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._elsewhere.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"localpv.cli.{module}"), cmd_name)
        return command


@click.group(cls=LazyGroup, elsewhere=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="localpv")
def cli() -> None:
    """Make the disks inside nodes usable as PersistentVolumes."""


def default_data() -> Path:
    """/var/lib/localpv for root, the XDG data folder for everybody else."""
    if os.geteuid() == 0:
        return Path("/var/lib/localpv")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "localpv"


def parse_listen(text: str) -> tuple[str, int]:
    """HOST:PORT, with brackets around an IPv6 address."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f'--listen takes HOST:PORT, not "{text}"', hint="for example --listen 127.0.0.1:7443")
    return host.strip("[]"), int(port)


def program_name() -> str:
    """What people typed: kubectl runs `kubectl-localpv` for `kubectl localpv`."""
    return "kubectl localpv" if Path(sys.argv[0]).name.startswith("kubectl-localpv") else "localpv"


def arguments(given: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What to run: the pods of the classic DaemonSet come without arguments, and with the name of their node."""
    return list(given) or (["provisioner"] if environ.get("MY_NODE_NAME") else [])


def main() -> None:
    """Entry point: errors that people can mend are a sentence and a hint, never a traceback."""
    try:
        cli(args=arguments(sys.argv[1:], os.environ), prog_name=program_name(), standalone_mode=False)
    except LocalpvError as error:
        click.echo(f"localpv: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


_engine_options = options.together(
    options.data("Folder for the database, certificates and tokens."),
    click.option(
        "--listen",
        default="127.0.0.1:7443",
        show_default=True,
        help="HOST:PORT to serve on; port 0 takes a free one.",
    ),
    click.option("--node", default=None, help="Name of this machine's Node object. [default: the host name]"),
    click.option(
        "--feature-gates",
        default="",
        help="Parts of the API to turn on or off, as NAME=true|false,...; known: PersistentLocalVolumes.",
    ),
    click.option(
        "--max-requests-inflight",
        type=click.IntRange(min=4),
        default=400,
        show_default=True,
        help="Requests answered at the same time, watches aside; one client may have a quarter of them.",
    ),
    click.option(
        "--max-connections",
        type=click.IntRange(min=16),
        default=2000,
        show_default=True,
        help="Open connections, watches among them; one client may have a quarter of them.",
    ),
    click.option(
        "--max-store-bytes",
        type=click.IntRange(min=16 << 20),
        default=1 << 30,
        show_default=True,
        help="Bytes that all objects together may take; those of one namespace may take half of them.",
    ),
    options.log_level,
)
"""Options that every program with an embedded engine takes."""


def parse_gates(text: str) -> dict[str, bool]:
    """NAME=true|false,..."""
    gates = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if value not in ("true", "false"):
            raise ConfigurationError(
                f'--feature-gates: "{part}" is not NAME=true or NAME=false',
                hint="for example PersistentLocalVolumes=false",
            )
        if name not in GATES:
            raise ConfigurationError(f'--feature-gates: "{name}" is not known', hint=f"known: {', '.join(GATES)}")
        gates[GATES[name]] = value == "true"
    return gates


def _settings(
    data: Path | None,
    listen: str,
    node: str | None,
    feature_gates: str,
    max_requests_inflight: int,
    max_connections: int,
    max_store_bytes: int,
) -> Settings:
    from localpv.engine.apiserver.bounds import Bounds
    from localpv.engine.apiserver.kinds.base import Gates
    from localpv.engine.apiserver.server import Settings

    host, port = parse_listen(listen)
    return Settings(
        data=(data or default_data()).absolute(),
        host=host,
        port=port,
        node_name=(node or socket.gethostname()).lower(),
        gates=Gates(**parse_gates(feature_gates)),
        bounds=Bounds(requests=max_requests_inflight, connections=max_connections, store_bytes=max_store_bytes),
    )


@cli.command()
@_engine_options
def apiserver(log_level: str, **engine: Any) -> None:
    """Run the API server alone."""
    from localpv.programs import apiserver as program

    options.start_logging(log_level)
    asyncio.run(program.run(_settings(**engine)))


@cli.command()
@_engine_options
@options.path(
    "--config",
    help="Folder with manifests (*.yaml, *.yml, *.json) that are applied at start, in the order of their names.",
)
@click.option("--demo", is_flag=True, help="Make a few demo volumes to look at.")
def up(log_level: str, config: Path | None, demo: bool, **engine: Any) -> None:
    """Run the embedded engine and everything else on this machine."""
    from localpv.programs import up as program

    on_terminal = sys.stdout.isatty()
    # The live view and log lines do not go together on one screen.
    options.start_logging("warning" if on_terminal and log_level == "info" else log_level)
    settings = _settings(**engine)
    asyncio.run(program.run(settings, config=config, with_demo=demo, on_terminal=on_terminal))
