"""The way of a device from a rule of a LocalStorage to its link, for `localpv explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from localpv import errors
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.localstorage import LocalStorage, LocalStorageNode, MatchedDevice
from localpv.client.client import Client
from localpv.disk import labels


async def of_disk(client: Client, disk: LocalDisk) -> str:
    """Which rule matched a disk, what it says, and the link that it made; empty for a disk that no rule brought."""
    key, _, place = disk.status.matched_by.partition(" ")
    if not place:
        return ""
    namespace, _, name = key.partition("/")
    link = f", link {disk.spec.path}"
    gone = f", which is gone; its rules are left on the node{link}. {labels.RULES_LEFT}"
    try:
        storage = await client.objects(LocalStorage).find(name, namespace)
    except (errors.Forbidden, errors.NotFound):
        storage, gone = None, f", which may not be read{link}"
    rules = dict(_rules(storage)) if storage is not None else {}
    if place not in rules:
        return f"matched by {place} of LocalStorage {key}{gone if storage is None else link}"
    return f"matched by rule {[*rules].index(place) + 1} of LocalStorage {key} ({place}: {rules[place]}){link}"


def _rules(storage: LocalStorage) -> Iterator[tuple[str, str]]:
    """All rules of a LocalStorage in their order, by their places."""
    for number, nodes in enumerate(storage.spec.nodes):
        for index, devices in enumerate(nodes.devices):
            place = f"nodes[{number}].devices[{index}]"
            yield from ((f"{place}.deviceNames[{at}]", text) for at, text in enumerate(devices.device_names))
            yield from ((f"{place}.udevRules[{at}]", text) for at, text in enumerate(devices.udev_rules))


async def of_device(client: Client, word: str) -> Sequence[str]:
    """What rules say about a device that is no disk of ours, by its kernel name, its path or NODE/NAME; each
    LocalStorage of each node that has such a device says one sentence."""
    node, _, name = word.removeprefix("/dev/").rpartition("/")
    if not name or "/" in node:
        return ()
    try:
        reports = (await client.objects(LocalStorageNode).list()).items
    except (errors.Forbidden, errors.NotFound):
        return ()
    return [
        _sentence(report, device)
        for report in sorted(reports, key=lambda each: (each.spec.node_name, each.key))
        if node in ("", report.spec.node_name)
        for device in report.status.devices
        if device.device == name
    ]


def _sentence(report: LocalStorageNode, device: MatchedDevice) -> str:
    storage = f"LocalStorage {report.metadata.namespace}/{report.spec.local_storage_name}"
    where = f"{device.device} on node {report.spec.node_name}"
    if device.link:
        return (
            f"{where}: matched by {device.rule} of {storage}, link /dev/{device.link}; its agent has not looked at it"
            " yet, or has no right to say so."
        )
    return f"{where}: not matched by {storage}: {device.message or device.reason}."
