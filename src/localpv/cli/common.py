"""What the commands for people share: which server, as whom, and errors that say what to do next."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from localpv import errors
from localpv.api.kinds.localdisk import LOCAL_DISKS
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.client import config
from localpv.client.client import Client, connect

T = TypeVar("T")


def connection(
    kubeconfig: Path | None, context: str, *, data: Path | None = None, home: Path | None = None
) -> config.Connection:
    """The server that kubectl would ask; when kubectl knows none, that of `localpv up` on this machine."""
    configured = (
        kubeconfig is not None
        or os.environ.get("KUBECONFIG")
        or os.environ.get("KUBERNETES_SERVICE_HOST")
        or ((home or Path.home()) / ".kube" / "config").exists()
    )
    if not configured:
        from localpv.cli.main import default_data

        own = (data or default_data()) / "kubeconfig"
        if os.access(own, os.R_OK):
            return config.load(own, context=context)
    return config.load(kubeconfig, context=context, home=home)


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path | None, context: str) -> AsyncIterator[Client]:
    async with connect(connection(kubeconfig, context), component="cli") as client:
        yield client


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end. What a cache would log is shown on the screen instead of torn across it."""
    logging.getLogger("localpv").addHandler(logging.NullHandler())
    return asyncio.run(work)


@contextlib.contextmanager
def asking(verb: str, resource: Resource) -> Iterator[None]:
    """Add what to do to the two refusals that a person can mend: the right is missing, or the kind itself is."""
    try:
        yield
    except errors.Forbidden as error:
        subject = resource.qualified
        raise errors.Forbidden(
            error.message,
            details=error.details,
            hint=f"the right to {verb} {subject} is missing; an administrator can give it with"
            f" `kubectl create clusterrole NAME --verb={verb} --resource={subject}` and a binding",
        ) from error
    except errors.NotFound as error:
        # An object that is missing is named in the answer; a whole kind that is missing is not.
        if resource is not LOCAL_DISKS or error.details.get("name"):
            raise
        raise errors.ConfigurationError(
            "this cluster has no LocalDisk kind: localpv is not installed in it",
            hint="install it: `localpv manifests --class NAME=DIR | kubectl apply -f -`",
        ) from error


def on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def in_colour() -> bool:
    return on_terminal() and not os.environ.get("NO_COLOR")


def write_objects(found: Iterable[Object], form: str) -> None:
    """Objects as `kubectl get -o json` or `-o yaml` gives them."""
    whole = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [*map(plain, found)]}
    if form == "json":
        click.echo(json.dumps(whole, indent=4, ensure_ascii=False))
    else:
        click.echo(as_yaml(whole), nl=False)


def plain(obj: Object) -> Object:
    """An object without the notes of who wrote which field, which nobody wants to read."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return obj | {"metadata": metadata}


def as_yaml(obj: Object) -> str:
    import yaml

    text: str = yaml.safe_dump(obj, default_flow_style=False, allow_unicode=True)
    return text
