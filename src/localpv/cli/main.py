"""`localpv` and `kubectl localpv`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path

import click

from localpv import __version__
from localpv.errors import ConfigurationError, LocalpvError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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


def main() -> None:
    """Entry point: errors that people can mend are a sentence and a hint, never a traceback."""
    try:
        cli(standalone_mode=False)
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


@cli.command()
@click.option("--data", type=click.Path(path_type=Path), default=None, help="Data folder.")
@click.option("--listen", default="127.0.0.1:7443", show_default=True, help="HOST:PORT; port 0 takes a free one.")
@click.option("--node", default=None, help="Name of this machine's Node object [default: the host name].")
@click.option("--log-level", default="warning", type=click.Choice(["debug", "info", "warning", "error"]))
def apiserver(data: Path | None, listen: str, node: str | None, log_level: str) -> None:
    """Run the API server alone."""
    from localpv.apiserver.server import Settings
    from localpv.programs import apiserver as program

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    host, port = parse_listen(listen)
    settings = Settings(
        data=data or default_data(), host=host, port=port, node_name=socket.gethostname() if node is None else node
    )
    asyncio.run(program.run(settings))
