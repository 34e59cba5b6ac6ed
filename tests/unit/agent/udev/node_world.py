"""A node in memory for tests of the discoverer: its udev, an API server, LocalStorages and LocalDisks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from tests.journey.crash_server import DISKS, Server

from localpv.agent.udev.discoverer import Discoverer
from localpv.api.kinds.localstorage import LOCAL_STORAGE_NODES, LOCAL_STORAGES, LocalStorage, LocalStorageNode
from localpv.client.client import Client
from localpv.client.transport import Transport
from localpv.config import local_storage
from localpv.config.local_storage import NodeConfiguration
from localpv.host.udev import Udev
from localpv.testing.clock import FakeClock
from localpv.testing.fake_host import FakeMachine, FakeUevents
from localpv.testing.fake_udev import FakeUdev

NODE, NAMESPACE = "one", "localpv-system"
OLD, YOUNG = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"
PREFIX = "disk/kubernetes-local-storage"


def devices(storage_class: str = "fast", *names: str, rules: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """A group of devices, as an administrator writes it."""
    return {
        "storageClassName": storage_class,
        "volumeMode": "Block",
        "deviceNames": list(names),
        "udevRules": list(rules),
        **more,
    }


class NodeWorld:
    """What outlives a discoverer."""

    def __init__(self, folder: Path) -> None:
        self.udev = FakeUdev()
        self.server = Server(offers=lambda volume: None)
        self.clock = FakeClock()
        self.state = folder / "state"
        self.server.put(f"/api/v1/nodes/{NODE}", {"metadata": {"name": NODE, "labels": {"disks": "yes"}}})

    def disk(self, name: str, serial: str = "", bus: str = "scsi", **known: str) -> None:
        """Plug a disk."""
        if serial:
            known |= {"ID_BUS": bus, "ID_SERIAL": serial}
        self.udev.plug(name, **known)

    # LocalStorages.

    def storage(
        self, name: str, *groups: Mapping[str, Any], created: str = OLD, node_selector: Any = None, uid: str = ""
    ) -> LocalStorage:
        """Write a LocalStorage with one group of nodes, or change its devices."""
        path = self._storage_path(name)
        before = self.server.objects.get(path)
        group: dict[str, Any] = {"devices": list(groups)}
        if node_selector is not None:
            group["nodeSelector"] = node_selector
        stored = self.server.put(
            path,
            {
                "apiVersion": f"{LOCAL_STORAGES.group}/{LOCAL_STORAGES.version}",
                "kind": LOCAL_STORAGES.kind,
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": uid or (before["metadata"]["uid"] if before else f"uid-of-{name}"),
                    "creationTimestamp": created,
                    "generation": before["metadata"]["generation"] + 1 if before else 1,
                },
                "spec": {"nodes": [group]},
            },
        )
        return msgspec.convert(stored, LocalStorage)

    def change_storage(self, name: str, **metadata: Any) -> None:
        path = self._storage_path(name)
        stored = dict(self.server.objects[path])
        self.server.put(path, stored | {"metadata": stored["metadata"] | metadata})

    def delete_storage(self, name: str) -> None:
        """Without finalizers: it is gone."""
        self.server.remove(self._storage_path(name))

    def delete_storages(self) -> None:
        for path in [path for path in self.server.objects if f"/{LOCAL_STORAGES.plural}/" in path]:
            self.server.remove(path)

    def _storage_path(self, name: str) -> str:
        return f"{LOCAL_STORAGES.path}/namespaces/{NAMESPACE}/{LOCAL_STORAGES.plural}/{name}"

    def label_node(self, **labels: str) -> None:
        self.server.put(f"/api/v1/nodes/{NODE}", {"metadata": {"name": NODE, "labels": labels}})

    # Disks that volumes have.

    def publish(self, entry: str) -> None:
        """A volume has the disk that is at CLASS/MODE/ID."""
        storage_class, mode, _ = entry.split("/")
        self.server.put(
            f"{DISKS}/{entry.replace('/', '-').lower()}",
            {
                "metadata": {},
                "spec": {
                    "nodeName": NODE,
                    "storageClassName": storage_class,
                    "entry": entry.rpartition("/")[2],
                    "path": f"/dev/{PREFIX}/{entry}",
                    "volumeMode": mode.capitalize(),
                    "volume": {"name": "pv", "uid": "pv-uid"},
                },
            },
        )

    def release(self, entry: str) -> None:
        """No volume has the disk any more."""
        path = f"{DISKS}/{entry.replace('/', '-').lower()}"
        disk = dict(self.server.objects[path])
        disk["spec"] = {key: value for key, value in disk["spec"].items() if key != "volume"}
        self.server.put(path, disk)

    # What is seen.

    def links(self) -> dict[str, str]:
        """CLASS/MODE/ID of all links of ours, with the devices that they lead to."""
        ours = {link.removeprefix(f"{PREFIX}/"): name for link, name in self.udev.links().items() if PREFIX in link}
        return dict(sorted(ours.items()))

    def report(self, name: str) -> LocalStorageNode | None:
        path = f"{LOCAL_STORAGE_NODES.path}/namespaces/{NAMESPACE}/{LOCAL_STORAGE_NODES.plural}/{name}.{NODE}"
        found = self.server.objects.get(path)
        return None if found is None else msgspec.convert(found, LocalStorageNode)

    def writes(self) -> int:
        """How often anything was written at the API server by discoverers."""
        return sum(request.method != "GET" for request in self.server.requests)

    # Who works there.

    def discoverer(
        self,
        *told: NodeConfiguration,
        udev: Udev | None = None,
        transport: Transport | None = None,
        engine: str = "",
    ) -> Discoverer:
        """A new process with this configuration."""
        made = Discoverer(
            node=NODE,
            client=Client(transport or self.server, field_manager="localpv-discoverer"),
            udev=udev or self.udev,
            uevents=FakeUevents(FakeMachine()),
            state=self.state,
            clock=self.clock,
            namespace=NAMESPACE,
            engine=engine,
        )
        made.configure(told)
        return made


def told(storage: LocalStorage, *, retired: bool = False) -> NodeConfiguration:
    """What the operator has in the ConfigMap of the LocalStorage's one group."""
    made = local_storage.node_configuration(storage, local_storage.groups(storage))
    groups = {id: msgspec.structs.replace(group, retired=retired) for id, group in made.groups.items()}
    return msgspec.structs.replace(made, groups=groups)
