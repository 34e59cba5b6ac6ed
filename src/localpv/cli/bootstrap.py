"""`localpv bootstrap`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import click

from localpv import errors
from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN, Resource
from localpv.cli import common, options
from localpv.client.client import Client, connect
from localpv.deploy import bootstrap as deploy
from localpv.deploy.plan import IMAGE, Plan

TRIES = 5
"""How often an object is read again because somebody else wrote it at the same time."""

_RESOURCES = {(resource.api_version, resource.kind): resource for resource in BUILT_IN}
_CONFIG_MAPS = _RESOURCES["v1", "ConfigMap"]


@click.command()
@click.option("-image", "--image", default=IMAGE, help="Image of the program. [default: localhost/localpv:VERSION]")
@click.option(
    "-volume-config",
    "--volume-config",
    default=deploy.VOLUME_CONFIG,
    show_default=True,
    help="ConfigMap with the classes and their host directories, in the same namespace.",
)
@click.option(
    "-serviceaccount",
    "--serviceaccount",
    default=deploy.SERVICE_ACCOUNT,
    show_default=True,
    help="Service account of the provisioner; made if it is missing.",
)
@click.option("-n", "--namespace", default="", help="Namespace to work in. [default: that of the kubeconfig or pod]")
@options.connection
def bootstrap(
    image: str, volume_config: str, serviceaccount: str, namespace: str, kubeconfig: Path | None, context: str
) -> None:
    """Start the provisioner on all nodes from a ConfigMap that names no more than the host directory of each class."""
    connection = common.connection(kubeconfig, context)
    wish = deploy.Wish(
        namespace=namespace or connection.namespace,
        image=image,
        volume_config=volume_config,
        service_account=serviceaccount,
    )

    async def work() -> None:
        async with connect(connection, component="bootstrap") as client:
            async for line in install(client, wish):
                click.echo(line)

    common.run(work())


async def install(client: Client, wish: deploy.Wish) -> AsyncIterator[str]:
    """Make what is missing and bring the rest up to date, and tell what was done; a wrong ConfigMap changes nothing."""
    plan, line = await _complete(client, wish)
    yield line
    for obj in deploy.rights(wish, plan):
        yield await put(client, obj)
    forbidden = []
    for obj in deploy.storage_classes(plan):
        try:
            yield await _add(client, obj)
        except errors.Forbidden:
            # The documented rights of a bootstrapper do not have this one: the rest is made all the same.
            forbidden.append(obj["metadata"]["name"])
    # Last, so that the first pod finds its account, its rights and its configuration.
    yield await put(client, deploy.daemon_set(wish, plan))
    if forbidden:
        raise errors.ConfigurationError(
            f"StorageClass {', '.join(forbidden)} may not be read or created by you, and without it no volume is made",
            hint="let an administrator create it, with provisioner kubernetes.io/no-provisioner and volumeBindingMode"
            " WaitForFirstConsumer, or allow you to create storageclasses",
        )


async def _complete(client: Client, wish: deploy.Wish) -> tuple[Plan, str]:
    """Fill in what the ConfigMap leaves out."""
    config_maps = client.untyped(_CONFIG_MAPS)
    name = f"configmaps/{wish.volume_config}"
    for tries_left in reversed(range(TRIES)):
        found = await config_maps.find(wish.volume_config, wish.namespace)
        if found is None:
            raise errors.ConfigurationError(
                f"there is no ConfigMap {wish.volume_config} in namespace {wish.namespace}",
                hint="make it with the key storageClassMap, or name another with --volume-config or --namespace",
            )
        data = deploy.completed(found.get("data") or {})
        plan = deploy.plan(wish, data)
        if data == found.get("data"):
            return plan, f"{name} unchanged"
        try:
            await config_maps.update({**found, "data": data})
        except errors.Conflict:
            if not tries_left:
                raise
        else:
            return plan, f"{name} completed"
    raise AssertionError("the last try returns or raises")


async def _add(client: Client, obj: Object) -> str:
    """Create an object unless there is one of that name, which then is the right one, whoever made it."""
    resource = _RESOURCES[obj["apiVersion"], obj["kind"]]
    objects, name = client.untyped(resource), obj["metadata"]["name"]
    if await objects.find(name) is None:
        try:
            await objects.create(obj)
        except errors.AlreadyExists:
            pass
        else:
            return f"{resource.qualified}/{name} created"
    return f"{resource.qualified}/{name} unchanged"


async def put(client: Client, obj: Object) -> str:
    """Create an object, or replace the one that an earlier bootstrap made; one of somebody else's is refused."""
    resource = _RESOURCES[obj["apiVersion"], obj["kind"]]
    objects, metadata = client.untyped(resource), obj["metadata"]
    name = f"{resource.qualified}/{metadata['name']}"
    for tries_left in reversed(range(TRIES)):
        try:
            await objects.create(obj)
        except errors.AlreadyExists:
            found = await objects.find(metadata["name"], metadata.get("namespace", ""))
        else:
            return f"{name} created"
        if found is None:
            continue
        if not deploy.ours(found):
            return _taken(resource, name)
        present = found["metadata"]
        labels = {**present.get("labels", {}), **metadata["labels"]}
        try:
            after = await objects.update({**obj, "metadata": {**present, "labels": labels}})
        except errors.Conflict:
            if not tries_left:
                raise
        else:
            same = after["metadata"]["resourceVersion"] == present["resourceVersion"]
            return f"{name} {'unchanged' if same else 'updated'}"
    raise errors.Conflict(f"{name} comes and goes; nothing was made of it")


def _taken(resource: Resource, name: str) -> str:
    # An account that an administrator made is as good as ours; anything else of that name would be broken by us.
    if resource.kind == "ServiceAccount":
        return f"{name} unchanged"
    raise errors.ConfigurationError(
        f"{name} is there already and was not made by localpv bootstrap",
        hint="remove it, or choose another --namespace or --serviceaccount",
    )
