"""`localpv manifests`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from localpv.errors import ConfigurationError


@click.command()
@click.option("-f", "--file", type=click.Path(path_type=Path), default=None, help="Configuration file; - reads stdin.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME=DIR",
    help="A class and its discovery directory; may be repeated, in place of a file.",
)
@click.option("--image", default="", help="Image of all programs. [default: localhost/localpv:VERSION]")
@click.option("-n", "--namespace", default="", help="Namespace to install into. [default: localpv-system]")
@click.option("--drop-in", is_flag=True, help="One provisioner per node with the classic rights, and no manager.")
@click.option(
    "--operator", is_flag=True, help="Serve LocalStorages too: devices chosen by udev rules; no class needed."
)
def manifests(
    file: Path | None, classes: tuple[str, ...], image: str, namespace: str, drop_in: bool, operator: bool
) -> None:
    """Print all objects that install localpv on a Kubernetes cluster, for `kubectl apply -f -`."""
    from localpv.deploy import everything, printing, reading

    if drop_in and operator:
        raise ConfigurationError(
            "--drop-in and --operator do not go together: a drop-in has no manager that could publish devices",
            hint="leave out --drop-in",
        )
    text, source = _text(file, classes, needed=not operator)
    plan = reading.read(text, source=source, drop_in=drop_in, operator=operator, image=image, namespace=namespace)
    click.echo(printing.documents(everything.objects(plan)), nl=False)


def _text(file: Path | None, classes: tuple[str, ...], *, needed: bool) -> tuple[str, str]:
    import json

    if file is not None and classes:
        raise ConfigurationError("--file and --class do not go together", hint="write the class into the file")
    if file is None and not classes and needed:
        raise ConfigurationError(
            "no class is configured, so there would be nothing to offer",
            hint="--class fast=/mnt/fast-disks, or a file with -f",
        )
    if file is None:
        found = {}
        for each in classes:
            name, separator, folder = each.partition("=")
            if not separator or name in found:
                raise ConfigurationError(f'--class takes NAME=DIR, each name once, not "{each}"')
            found[name] = {"hostDir": folder}
        return json.dumps({"storageClassMap": found}), "--class"
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        detail = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{file} cannot be read: {detail}", hint="name a YAML file") from error
    return text, "stdin" if str(file) == "-" else str(file)
