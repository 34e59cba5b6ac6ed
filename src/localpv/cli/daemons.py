"""The programs that run all the time on Kubernetes: agent, manager, provisioner, operator, discoverer."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localpv.cli.common import connection, connection_options
from localpv.errors import ConfigurationError

if TYPE_CHECKING:
    from localpv.deploy.local_storage import NodePods

Command = Callable[..., None]

CONFIG_FOLDER = Path("/etc/provisioner/config")
STATE_FOLDER = Path("/var/lib/localpv/agent")
NODE_FOLDER = Path("/var/lib/localpv")
RULES_FOLDER = Path("/etc/udev/rules.d")

_config = click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=CONFIG_FOLDER,
    show_default=True,
    help="Folder with the keys of the ConfigMap as files.",
)
_state = click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=STATE_FOLDER,
    show_default=True,
    help="Folder on the node for locks and, without the kind LocalDisk, for records.",
)
_listen_address = click.option(
    "--listen-address",
    default="",
    help="HOST:PORT where /livez, /readyz and /metrics are answered over plain HTTP. [default: nowhere]",
)
_log_level = click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="What is logged on stderr.",
)


def _node_pods(command: Command) -> Command:
    """How the pods run that serve LocalStorages on nodes."""
    for option in (
        click.option("--image-pull-secret", multiple=True, help="Secret for the image of those pods; may be repeated."),
        click.option(
            "--image-pull-policy",
            default="IfNotPresent",
            show_default=True,
            type=click.Choice(["IfNotPresent", "Always", "Never"]),
            help="When nodes pull that image.",
        ),
        click.option(
            "--image",
            default="",
            help="Image of the pods that serve LocalStorages on nodes. [default: LocalStorages are not served]",
        ),
    ):
        command = option(command)
    return command


def _address(text: str) -> str:
    """HOST:PORT, or :PORT for all addresses of the pod."""
    if text and not text.rpartition(":")[2].isdigit():
        raise ConfigurationError(f'--listen-address takes HOST:PORT, not "{text}"', hint="for example :8080")
    return text


def _start_logging(level: str) -> None:
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")


def _node_options(command: Command) -> Command:
    """Options of the programs that serve one node."""
    for option in (_log_level, _listen_address, _state, _config, connection_options):
        command = option(command)
    return command


def _serve_node(
    program: str,
    *details: str,
    local_storage: bool = False,
    udev_rules: Path = RULES_FOLDER,
    kubeconfig: Path | None,
    context: str,
    config: Path,
    state: Path,
    listen_address: str,
    log_level: str,
) -> None:
    from localpv.config import environment
    from localpv.programs.node_parts import Settings

    _start_logging(log_level)
    told = environment.read(os.environ)
    settings = Settings(
        connection=connection(kubeconfig, context),
        probes=_address(listen_address),
        node=told.node_name,
        config=config,
        config_map=told.volume_config,
        namespace=told.namespace,
        state=state,
        rules=udev_rules,
        local_storage=local_storage,
    )
    asyncio.run(import_module(f"localpv.programs.{program}").run(settings, *details))


@click.command()
@_node_options
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
@click.option(
    "--udev-rules",
    type=click.Path(path_type=Path),
    default=RULES_FOLDER,
    show_default=True,
    help="Folder of the host's udev rules, where the classes of LocalStorages are read.",
)
def agent(disk: str, **options: Any) -> None:
    """Discover and clean the disks of the node that MY_NODE_NAME names."""
    _serve_node(*(("cleaning_job", disk) if disk else ("agent",)), **options)


@click.command()
@_node_options
def provisioner(**options: Any) -> None:
    """Do all for the node that MY_NODE_NAME names: a drop-in for the classic DaemonSet.

    Without a folder --config the ConfigMap is read from the API: the one that VOLUME_CONFIG_NAME names, else
    local-volume-config or local-volume-default-config, in the namespace of the pod.
    """
    _serve_node("provisioner", **options)


@click.command()
@connection_options
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder with the keys of the ConfigMap as files. [default: read the ConfigMap from the API]",
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
@_listen_address
@_log_level
def manager(
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    config_map: str,
    namespace: str,
    agents: str,
    image: str,
    image_pull_policy: str,
    image_pull_secret: tuple[str, ...],
    listen_address: str,
    log_level: str,
) -> None:
    """Publish disks of all nodes as PersistentVolumes and order their cleaning; the only writer of PVs."""
    from localpv.config import environment
    from localpv.programs import manager as program

    _start_logging(log_level)
    asyncio.run(
        program.run(
            program.Settings(
                connection=connection(kubeconfig, context),
                probes=_address(listen_address),
                config=config,
                config_map=config_map,
                namespace=namespace,
                agents=agents,
                job_image=environment.job_image(os.environ),
                identity=f"{socket.gethostname()}-{os.getpid()}",
                pods=_pods(image, image_pull_policy, image_pull_secret) if image else None,
            )
        )
    )


@click.command()
@connection_options
@click.option(
    "--namespace", default="localpv-system", show_default=True, help="Namespace of the LocalStorages and the lease."
)
@_node_pods
@_listen_address
@_log_level
def operator(
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    image: str,
    image_pull_policy: str,
    image_pull_secret: tuple[str, ...],
    listen_address: str,
    log_level: str,
) -> None:
    """Serve LocalStorages: make their classes, run pods on the nodes that they mean, and write their status."""
    from localpv.programs import operator as program

    if not image:
        raise ConfigurationError("--image is not given", hint="name the image that pods on nodes are to run")
    _start_logging(log_level)
    asyncio.run(
        program.run(
            program.Settings(
                connection=connection(kubeconfig, context),
                probes=_address(listen_address),
                namespace=namespace,
                identity=f"{socket.gethostname()}-{os.getpid()}",
                pods=_pods(image, image_pull_policy, image_pull_secret),
            )
        )
    )


def _pods(image: str, pull_policy: str, pull_secrets: tuple[str, ...]) -> NodePods:
    from localpv.deploy.local_storage import NodePods

    return NodePods(image=image, pull_policy=pull_policy, pull_secrets=pull_secrets)


@click.command()
@connection_options
@click.option("--node", envvar="MY_NODE_NAME", default="", help="Name of this node. [default: MY_NODE_NAME]")
@click.option(
    "--namespace",
    envvar="MY_NAMESPACE",
    default="localpv-system",
    show_default=True,
    help="Namespace of the operator; LocalStorages of others have theirs in the names of their files.",
)
@_config
@click.option(
    "--rules-folder",
    type=click.Path(path_type=Path),
    default=RULES_FOLDER,
    show_default=True,
    help="The host's folder for rules of udev.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=NODE_FOLDER,
    show_default=True,
    help="Folder on the node for the lock under which rules are changed.",
)
@_listen_address
@_log_level
def discoverer(
    kubeconfig: Path | None,
    context: str,
    node: str,
    namespace: str,
    config: Path,
    rules_folder: Path,
    state: Path,
    listen_address: str,
    log_level: str,
) -> None:
    """Turn what a LocalStorage says about a node into rules of udev there, and report which devices they match."""
    from localpv.config import environment
    from localpv.programs import discoverer as program

    _start_logging(log_level)
    asyncio.run(
        program.run(
            program.Settings(
                connection=connection(kubeconfig, context),
                probes=_address(listen_address),
                node=environment.read({environment.NODE: node}).node_name,
                namespace=namespace,
                config=config,
                rules=rules_folder,
                state=state,
            )
        )
    )
