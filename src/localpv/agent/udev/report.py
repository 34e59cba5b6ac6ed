"""What came of a LocalStorage on this node, read from udev's database: the status of its LocalStorageNode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localpv.agent.udev import rules_file
from localpv.api.kinds.localstorage import (
    LOCAL_STORAGES,
    LocalStorageNode,
    LocalStorageNodeSpec,
    LocalStorageNodeStatus,
    MatchedDevice,
)
from localpv.api.kinds.meta import ObjectMeta, OwnerReference
from localpv.config import local_storage
from localpv.config.local_storage import NodeConfiguration
from localpv.host.udev import UdevDevice

MOST_DEVICES = 256
"""Devices that a LocalStorageNode names; matched ones first."""


def empty_object(configuration: NodeConfiguration, node: str) -> LocalStorageNode:
    """The LocalStorageNode of a node, with nothing said yet."""
    return LocalStorageNode(
        metadata=ObjectMeta(
            name=local_storage.report_name(configuration.name, node),
            namespace=configuration.namespace,
            owner_references=(
                OwnerReference(
                    api_version=f"{LOCAL_STORAGES.group}/{LOCAL_STORAGES.version}",
                    kind=LOCAL_STORAGES.kind,
                    name=configuration.name,
                    uid=configuration.uid,
                ),
            ),
        ),
        spec=LocalStorageNodeSpec(
            node_name=node, local_storage_name=configuration.name, local_storage_uid=configuration.uid
        ),
    )


def status(
    configuration: NodeConfiguration,
    devices: Sequence[UdevDevice],
    *,
    unseen: Iterable[str],
    generation: int,
    error: str,
) -> LocalStorageNodeStatus:
    """What is known now. `unseen` are kernel names of devices that udev has not looked at with these rules."""
    late = frozenset(unseen)
    told = [_device(configuration, device, late=device.name in late) for device in devices if not device.empty]
    matched = [device for device in told if device.link]
    others = [device for device in told if not device.link]
    return LocalStorageNodeStatus(
        generation=generation,
        matched=len(matched),
        devices=tuple((matched + others)[:MOST_DEVICES]),
        error=error,
    )


def _device(configuration: NodeConfiguration, device: UdevDevice, *, late: bool) -> MatchedDevice:
    found = rules_file.found(configuration, device.properties)
    link = found.link if found.storage_class_name else ""
    if link and link in device.links:
        return MatchedDevice(
            device=device.name,
            link=f"/dev/{link}",
            storage_class_name=found.storage_class_name,
            volume_mode=found.mode.capitalize(),
            rule=found.rule,
        )
    reason, message = found.reason, found.message
    if late:
        reason, message = "NotLookedAt", "udev has not looked at the device since the rules changed; it is asked again"
    elif link:
        reason, message = "SameName", f"another device has the same serial number and has /dev/{link}"
    return MatchedDevice(device=device.name, rule=found.rule, reason=reason, message=message)
