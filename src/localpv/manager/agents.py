"""Whether the agent of a node has looked at its disks, also when it found none.

An agent writes nothing but LocalDisks, and without disks there is none to write. But its pod becomes Ready only when
every directory has been looked through, and the node's kubelet says so in the API.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from localpv import errors
from localpv.api.kinds.pods import Pod
from localpv.client.client import Client
from localpv.client.objects import Selection

AGENTS = "app.kubernetes.io/name=localpv,app.kubernetes.io/component=agent"
"""Labels of the agents' pods."""

HasLooked = Callable[[str], Awaitable[bool]]
"""By the name of a node."""

log = logging.getLogger(__name__)


class AgentPods:
    """The pods of the agents, in one namespace."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._pods = client.objects(Pod)
        self._namespace = namespace

    async def have_looked(self, node: str) -> bool:
        selection = Selection(namespace=self._namespace, labels=AGENTS, fields=f"spec.nodeName={node}")
        try:
            pods = await self._pods.list(selection)
        except errors.Forbidden as error:
            log.debug("pods of agents cannot be read reason=%s", error)
            return False
        return any(_is_ready(pod) for pod in pods.items)


async def nobody(node: str) -> bool:
    """For a manager that cannot know."""
    return False


def _is_ready(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and not pod.metadata.deleting
