"""What is configured by environment variables, under the names that the classic provisioner uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localpv import errors
from localpv.api import names

NODE = "MY_NODE_NAME"
NAMESPACE = "MY_NAMESPACE"
VOLUME_CONFIG = "VOLUME_CONFIG_NAME"
JOB_IMAGE = "JOB_CONTAINER_IMAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    node_name: str
    """The node that this process serves."""

    namespace: str = ""
    """Where its ConfigMap is; empty for the namespace of its service account."""

    volume_config: str = ""
    """The name of its ConfigMap, where that is not mounted; empty for the names of the documents."""


def job_image(variables: Mapping[str, str]) -> str:
    """The image of cleaning Jobs, if it is to be another than that of the agents."""
    return variables.get(JOB_IMAGE, "")


def read(variables: Mapping[str, str]) -> Environment:
    """The environment of this process; ConfigurationError when the node is not known."""
    node = variables.get(NODE, "")
    if not node:
        raise errors.ConfigurationError(
            f"{NODE} is not set, so it is not known which node this is",
            hint=f"set {NODE} from the field spec.nodeName of the pod, or to the name of this node",
        )
    if wrong := names.dns_subdomain(node):
        raise errors.ConfigurationError(f'{NODE} is "{node}", which is no name of a node: {", ".join(wrong)}')
    return Environment(
        node_name=node,
        namespace=variables.get(NAMESPACE, ""),
        volume_config=variables.get(VOLUME_CONFIG, ""),
    )
