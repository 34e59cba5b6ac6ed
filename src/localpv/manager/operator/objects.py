"""What the operator makes, as whoever installs localpv describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from localpv.api.kinds.localstorage import LocalStorage, NodeGroup
from localpv.api.objects import Object


class NodeObjects(Protocol):
    """Builds objects; asks nobody and writes nothing."""

    def storage_class(self, name: str, *, made_for: str) -> Object:
        """A class, marked as made for the LocalStorage NAMESPACE/NAME."""

    def config_map(self, owner: LocalStorage, name: str, group: str, nodes: str, data: Mapping[str, str]) -> Object:
        """What the pods of a group are to do, and which nodes the group is."""

    def daemon_set(self, owner: LocalStorage, name: str, group: str, nodes: NodeGroup) -> Object | None:
        """The pods of a group, labelled and owned as the ConfigMap is; None where the group is served without pods."""
