"""The programs that run all the time on Kubernetes: agent, manager, provisioner, operator, discoverer."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localpv.cli import options
from localpv.cli.common import connection
from localpv.errors import ConfigurationError

if TYPE_CHECKING:
    from localpv.client.config import Connection
    from localpv.deploy.local_storage import NodePods

Command = Callable[..., None]

CONFIG_FOLDER = Path("/etc/provisioner/config")
STATE_FOLDER = Path("/var/lib/localpv/agent")
NODE_FOLDER = Path("/var/lib/localpv")
RULES_FOLDER = Path("/etc/udev/rules.d")
KUBELET_FOLDER = Path("/var/lib/kubelet")

_config = options.path("--config", default=CONFIG_FOLDER, help="Folder with the keys of the ConfigMap as files.")


def _daemon(command: Command) -> Command:
    """A program that runs all the time, given the server it works on and where it answers `probes`."""

    @options.connection
    @click.option(
        "--listen-address",
        default="",
        help="HOST:PORT where /livez, /readyz and /metrics are answered over plain HTTP. [default: nowhere]",
    )
    @options.log_level
    @functools.wraps(command)
    def start(kubeconfig: Path | None, context: str, listen_address: str, log_level: str, **others: Any) -> None:
        # :PORT is all addresses of the pod.
        if listen_address and not listen_address.rpartition(":")[2].isdigit():
            message = f'--listen-address takes HOST:PORT, not "{listen_address}"'
            raise ConfigurationError(message, hint="for example :8080")
        options.start_logging(log_level)
        command(server=connection(kubeconfig, context), probes=listen_address, **others)

    return start


def _node_pods(command: Command) -> Command:
    """How the `pods` run that serve LocalStorages on nodes; without an image there are none."""

    @click.option(
        "--image",
        default="",
        help="Image of the pods that serve LocalStorages on nodes. [default: LocalStorages are not served]",
    )
    @click.option(
        "--image-pull-policy",
        default="IfNotPresent",
        show_default=True,
        type=click.Choice(["IfNotPresent", "Always", "Never"]),
        help="When nodes pull that image.",
    )
    @click.option("--image-pull-secret", multiple=True, help="Secret for the image of those pods; may be repeated.")
    @functools.wraps(command)
    def start(image: str, image_pull_policy: str, image_pull_secret: tuple[str, ...], **others: Any) -> None:
        from localpv.deploy.local_storage import NodePods

        named = NodePods(image=image, pull_policy=image_pull_policy, pull_secrets=image_pull_secret)
        command(pods=named if image else None, **others)

    return start


def _leader() -> str:
    """Under what name this process holds a lease."""
    return f"{socket.gethostname()}-{os.getpid()}"


_node_folders = options.together(
    _config,
    options.path(
        "--state",
        default=STATE_FOLDER,
        help="Folder on the node for locks and, without the kind LocalDisk, for records.",
    ),
)
"""Folders of the programs that serve one node."""


def _serve_node(
    program: str,
    *details: str,
    server: Connection,
    probes: str,
    config: Path,
    state: Path,
    local_storage: bool = False,
    udev_rules: Path = RULES_FOLDER,
    kubelet: Path | None = None,
) -> None:
    from localpv.config import environment
    from localpv.programs.node_parts import Settings

    told = environment.read(os.environ)
    settings = Settings(
        connection=server,
        probes=probes,
        node=told.node_name,
        config=config,
        config_map=told.volume_config,
        namespace=told.namespace,
        state=state,
        rules=udev_rules,
        kubelet=kubelet,
        local_storage=local_storage,
    )
    asyncio.run(import_module(f"localpv.programs.{program}").run(settings, *details))


@click.command()
@_daemon
@_node_folders
@click.option(
    "--clean",
    "disk",
    metavar="DISK",
    default="",
    help="Carry out the order to clean this LocalDisk, and end: what Jobs that clean do.",
)
@click.option(
    "--local-storage",
    is_flag=True,
    help="Serve the LocalStorages of the node alone, without a ConfigMap; make room for an agent that has one.",
)
@options.path(
    "--udev-rules",
    default=RULES_FOLDER,
    help="Folder of the host's udev rules, where the classes of LocalStorages are read.",
)
@options.path(
    "--kubelet",
    default=KUBELET_FOLDER,
    help="Folder of the node's kubelet, which is told there of the driver for volumes of pools.",
)
def agent(disk: str, **others: Any) -> None:
    """Discover and clean the disks of the node that MY_NODE_NAME names."""
    _serve_node(*(("cleaning_job", disk) if disk else ("agent",)), **others)


@click.command()
@_daemon
@_node_folders
def provisioner(**others: Any) -> None:
    """Do all for the node that MY_NODE_NAME names: a drop-in for the classic DaemonSet.

    Without a folder --config the ConfigMap is read from the API: the one that VOLUME_CONFIG_NAME names, else
    local-volume-config or local-volume-default-config, in the namespace of the pod.
    """
    _serve_node("provisioner", **others)


@click.command()
@_daemon
@options.path(
    "--config", help="Folder with the keys of the ConfigMap as files. [default: read the ConfigMap from the API]"
)
@click.option("--config-map", default="localpv-config", show_default=True, help="Name of the ConfigMap.")
@click.option("--namespace", default="kube-system", show_default=True, help="Namespace of the ConfigMap and the lease.")
@click.option(
    "--agents",
    default="localpv-agent",
    show_default=True,
    help="DaemonSet of the agents; Jobs that clean look like its pods.",
)
@_node_pods
def manager(server: Connection, **others: Any) -> None:
    """Publish disks of all nodes as PersistentVolumes and order their cleaning; the only writer of PVs."""
    from localpv.config import environment
    from localpv.programs import manager as program

    job_image = environment.job_image(os.environ)
    settings = program.Settings(connection=server, job_image=job_image, identity=_leader(), **others)
    asyncio.run(program.run(settings))


@click.command()
@_daemon
@click.option(
    "--namespace", default="localpv-system", show_default=True, help="Namespace of the LocalStorages and the lease."
)
@_node_pods
def operator(server: Connection, pods: NodePods | None, **others: Any) -> None:
    """Serve LocalStorages: make their classes, run pods on the nodes that they mean, and write their status."""
    from localpv.programs import operator as program

    if pods is None:
        raise ConfigurationError("--image is not given", hint="name the image that pods on nodes are to run")
    asyncio.run(program.run(program.Settings(connection=server, pods=pods, identity=_leader(), **others)))


@click.command()
@_daemon
@click.option("--node", envvar="MY_NODE_NAME", default="", help="Name of this node. [default: MY_NODE_NAME]")
@click.option(
    "--namespace",
    envvar="MY_NAMESPACE",
    default="localpv-system",
    show_default=True,
    help="Namespace of the operator; LocalStorages of others have theirs in the names of their files.",
)
@_config
@options.path("--rules-folder", default=RULES_FOLDER, help="The host's folder for rules of udev.")
@options.path("--state", default=NODE_FOLDER, help="Folder on the node for the lock under which rules are changed.")
def discoverer(server: Connection, node: str, rules_folder: Path, **others: Any) -> None:
    """Turn what a LocalStorage says about a node into rules of udev there, and report which devices they match."""
    from localpv.config import environment
    from localpv.programs import discoverer as program

    name = environment.read({environment.NODE: node}).node_name
    asyncio.run(program.run(program.Settings(connection=server, node=name, rules=rules_folder, **others)))
