"""`localpv image`: the images that pods of this machine are made from.

Works on the data folder itself, while the engine runs or not: an image is there whole or not at all.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localpv import errors
from localpv.cli import options, tables

if TYPE_CHECKING:
    from localpv.engine.kubelet.images.store import Image, Images
    from localpv.engine.kubelet.paths import KubeletPaths

Column = tables.Column[tuple[str, "Image"]]
_SHORT_ID = 12


@click.group()
@options.data("Folder of the `localpv up` that is to run the pods.")
@click.pass_context
def image(context: click.Context, data: Path | None) -> None:
    """Import, list and remove the images that pods of this machine run from."""
    from localpv.cli.main import default_data
    from localpv.engine.kubelet.paths import KubeletPaths

    context.obj = KubeletPaths.of(data or default_data())


@image.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("name", default="")
@click.pass_obj
def import_(paths: KubeletPaths, file: Path, name: str) -> None:
    """Take an archive: an OCI layout or what `docker save` writes, as a tar file, compressed or not.

    NAME replaces the name that the archive gives its image.
    """
    from localpv.engine.kubelet.images import archives

    if os.geteuid() != 0:
        raise errors.ConfigurationError("images are imported by root", hint="their files belong to many users")
    images = _images(paths)
    images.folder.mkdir(parents=True, exist_ok=True)
    for reference, loaded in archives.load(file, images, name=name):
        click.echo(f"{reference.short} {loaded.id}")


@image.command("list")
@click.pass_obj
def list_(paths: KubeletPaths) -> None:
    """Show the images, by name."""
    from localpv.engine.kubelet.images import store

    columns: tuple[Column, ...] = (
        Column("IMAGE", lambda row: store.parse_reference(row[0]).short),
        Column("ID", lambda row: row[1].id.removeprefix("sha256:")[:_SHORT_ID]),
        Column("SIZE", lambda row: f"{row[1].size / 1e6:.1f} MB", right=True),
        # Images that are made to be the same each time, as our busybox, carry the beginning of time.
        Column("CREATED", lambda row: "" if row[1].created.startswith("1970-") else row[1].created[:10]),
    )
    found = _images(paths).names()
    if not found:
        click.echo("No images. `localpv up` brings busybox; others come with `localpv image import FILE`.", err=True)
        return
    tables.write(columns, [*found.items()], wide=False, colour=False)


@image.command()
@click.argument("name")
@click.pass_obj
def remove(paths: KubeletPaths, name: str) -> None:
    """Remove an image by its name; refused while a container runs from it."""
    from localpv.engine.kubelet import records

    used = frozenset(records.used_images(paths.containers))
    gone = _images(paths).remove(name, used=lambda one: one.id in used)
    click.echo(f"removed {name} {gone.id}")


def _images(paths: KubeletPaths) -> Images:
    from localpv.engine.kubelet.images.store import Images

    return Images(paths.images)
