"""What a volume is made from beside its disk: the configuration, the StorageClass and the Node, as last seen."""

from __future__ import annotations

from typing import Protocol

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import StorageClass
from localpv.config.settings import Configuration


class Listers(Protocol):
    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""

    def storage_class(self, name: str) -> StorageClass | None: ...

    def node(self, name: str) -> Node | None: ...
