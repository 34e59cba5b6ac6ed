"""`localpv translate`: manifests of the drafts, and of OpenShift's operator, as they are taken today."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from localpv.api.translate import manifests
from localpv.errors import ConfigurationError


@click.command()
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    required=True,
    help="File with manifests, YAML or JSON; - reads standard input. Can be given several times.",
)
def translate(filenames: tuple[str, ...]) -> None:
    """Turn manifests of the first drafts of local volumes into what Kubernetes accepts today.

    Inline localVolume in pods, alpha and beta annotations of volumes and claims; LocalVolume and LocalVolumeSet of
    OpenShift's Local Storage Operator become LocalStorages. The result goes to standard output; what was changed, and
    what could not be, to standard error. Nothing is sent to a server.
    """
    left = 0
    for number, name in enumerate(filenames):
        done = manifests.translate_text(_read(name), source="stdin" if name == "-" else name)
        text = done.text if done.text.endswith("\n") or not done.text else done.text + "\n"
        if number and not text.startswith("---"):
            click.echo("---")
        click.echo(text, nl=False)
        for about, note in done.notes:
            click.echo(f"{about}: {'' if note.done else 'NOT DONE: '}{note.message}", err=True)
            left += not note.done
    if left:
        raise ConfigurationError(
            f"{left} {'thing' if left == 1 else 'things'} could not be translated", hint="see the lines above"
        )


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        detail = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{name} cannot be read: {detail}", hint="name a file with manifests") from error
