"""The fake side of `host/udev.py`: it reads rules and carries them out on devices that a test has made up.

It knows what our own files of rules are made of: match keys, ENV and SYMLINK, GOTO and LABEL, and IMPORT from the
database; any other assignment is an error, since none is ours. Written apart from the part that generates those
files, so that a mistake there is not made here too.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from localpv import errors
from localpv.host.model.devices import DeviceNumber
from localpv.host.udev import ENDING, NO_UDEV, UdevDevice

_TOKEN = re.compile(r'\s*,?\s*([A-Z]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|=)\s*"([^"]*)"')
_NUMBER = re.compile(r"(\d*)$")
_UNSAFE = re.compile(r"[^A-Za-z0-9#+\-.:=@_/]")


@dataclass
class FakeBlockDevice:
    """A device as the kernel shows it, and what other rules than ours say about it."""

    name: str
    number: DeviceNumber
    properties: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    """Attributes of the device and of those above it."""

    empty: bool = False
    locked: bool = False
    """Whether somebody has locked it: udev puts off looking at it until he is done."""


@dataclass
class _Event:
    """What becomes of a device while rules are carried out on it."""

    device: FakeBlockDevice
    action: str
    before: Mapping[str, str]
    properties: dict[str, str]
    links: list[str] = field(default_factory=list)
    taken: frozenset[str] = frozenset()
    """Links below /dev that are there."""


class FakeUdev:
    """Rules in a dictionary and devices in another one."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = {}
        """What lies in the folder of rules."""

        self.is_running = True
        self.deaf = False
        """Whether it does not read the rules again although it says so."""

        self.blind = False
        """Whether rules do not see which links are there: those of devices that are looked at in the same moment."""

        self.reloads = 0
        self.triggered: list[str] = []
        """Kernel names, in the order in which devices were looked at again."""

        self._loaded: dict[str, str] = {}
        self._devices: dict[str, FakeBlockDevice] = {}
        self._records: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {}
        self._owners: dict[str, str] = {}

    # What a test does to the machine.

    def plug(
        self, name: str, *, empty: bool = False, attributes: Mapping[str, str] | None = None, **known: str
    ) -> None:
        """A device comes; `known` are its properties, such as ID_SERIAL."""
        number = DeviceNumber(8, len(self._devices) + sum(map(ord, name)) * 1000)
        properties = {"DEVTYPE": "disk", **known}
        self._devices[name] = FakeBlockDevice(name, number, properties, dict(attributes or {}), empty=empty)
        self._look(name, "add")

    def pull(self, name: str) -> None:
        del self._devices[name]
        self._put(name, {}, ())

    def lock(self, name: str, locked: bool = True) -> None:
        """Somebody locks a device: what is written on it changes, and udev does not look meanwhile."""
        self._devices[name].locked = locked

    def restart(self) -> None:
        """The machine starts again: the database is in memory, the rules are not."""
        self._records.clear()
        self._owners.clear()
        self._loaded = dict(self.rules)
        for name in sorted(self._devices):
            self._look(name, "add")

    def links(self) -> dict[str, str]:
        """Links below /dev, each with the device that it leads to."""
        return dict(self._owners)

    # What the other side does.

    async def files(self, prefix: str) -> dict[str, str]:
        return {name: text for name, text in sorted(self.rules.items()) if name.startswith(prefix)}

    async def write(self, name: str, text: str) -> None:
        self._check(name)
        self.rules[name] = text

    async def remove(self, name: str) -> None:
        self._check(name)
        self.rules.pop(name, None)

    def _check(self, name: str) -> None:
        if "/" in name or name.startswith(".") or not name.endswith(ENDING):
            raise errors.OutsideFolder(f"{name!r} is no name of a file of rules")

    async def running(self) -> bool:
        return self.is_running

    async def reload(self) -> None:
        if not self.is_running:
            raise errors.NotSupported(NO_UDEV)
        self.reloads += 1
        if not self.deaf:
            self._loaded = dict(self.rules)

    async def trigger(self, names: Collection[str], *, argument: str = "") -> None:
        for name in names:
            if name in self._devices and self.is_running:
                self.triggered.append(name)
                self._look(name, "change", argument)

    async def settle(self, *, seconds: float) -> bool:
        return self.is_running

    async def devices(self) -> tuple[UdevDevice, ...]:
        return tuple(self._device(name) for name in sorted(self._devices))

    def _device(self, name: str) -> UdevDevice:
        device = self._devices[name]
        properties, links = self._records.get(name, ({}, ()))
        own = tuple(link for link in links if self._owners.get(link) == name)
        return UdevDevice(name=name, number=device.number, properties=properties, links=own, empty=device.empty)

    # Carrying rules out.

    def _look(self, name: str, action: str, argument: str = "") -> None:
        device = self._devices[name]
        if device.locked or not self.is_running:
            return
        before, _ = self._records.get(name, ({}, ()))
        event = _Event(
            device, action, before, dict(device.properties), taken=frozenset(() if self.blind else self._owners)
        )
        if argument:
            event.properties[f"SYNTH_ARG_{argument}"] = "1"
        for file in sorted(self._loaded):
            _carry_out(self._loaded[file], event)
        event.properties.pop(f"SYNTH_ARG_{argument}", None)
        self._put(name, event.properties, tuple(event.links))

    def _put(self, name: str, properties: dict[str, str], links: tuple[str, ...]) -> None:
        self._records[name] = (properties, links)
        self._owners = {link: owner for link, owner in self._owners.items() if owner != name or link in links}
        for link in links:
            self._owners.setdefault(link, name)
        # A link that its owner has given up leads to another device that wants it.
        for other, (_, wanted) in self._records.items():
            for link in wanted:
                self._owners.setdefault(link, other)


def _carry_out(text: str, event: _Event) -> None:
    lines = [line.strip() for line in text.splitlines()]
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line or line.startswith("#"):
            continue
        goto = _line(line, event)
        if goto is not None:
            at = next(number for number, one in enumerate(lines) if number >= at and one == f'LABEL="{goto}"')


def _line(line: str, event: _Event) -> str | None:
    """Carry one line out; the label to go on at, if it says so."""
    position, tokens = 0, []
    while position < len(line):
        found = _TOKEN.match(line, position)
        assert found is not None, f"not a rule: {line[position:]!r}"
        tokens.append(found.groups(default=""))
        position = found.end()
    for key, attribute, operator, value in tokens:
        if operator in ("==", "!=") and _matches(key, attribute, value, event) is (operator == "!="):
            return None
    goto = None
    for key, attribute, operator, value in tokens:
        match key, operator:
            case _, "==" | "!=":
                pass
            case "ENV", "=":
                filled = _filled(value, event)
                event.properties[attribute] = filled
                if not filled:
                    del event.properties[attribute]
            case "SYMLINK", "+=":
                event.links += [link for link in [_UNSAFE.sub("_", _filled(value, event))] if link not in event.links]
            case "IMPORT", "=" if attribute == "db":
                if value in event.before:
                    event.properties[value] = event.before[value]
            case "GOTO", "=":
                goto = value
            case "LABEL" | "OPTIONS", _:
                pass
            case _:
                raise AssertionError(f"none of our rules assigns {key}: {line}")
    return goto


def _matches(key: str, attribute: str, pattern: str, event: _Event) -> bool:
    device = event.device
    match key:
        case "KERNEL" | "KERNELS":
            values = [device.name]
        case "SUBSYSTEM" | "SUBSYSTEMS":
            values = ["block"]
        case "ACTION":
            values = [event.action]
        case "ENV":
            values = [event.properties.get(attribute, "")]
        case "ATTR" | "ATTRS":
            if attribute not in device.attributes:
                return False
            values = [device.attributes[attribute]]
        case "SYMLINK":
            values = event.links
        case "TEST":
            return _filled(pattern, event).removeprefix("/dev/") in event.taken
        case _:
            values = []
    return any(fnmatch.fnmatchcase(value, one) for value in values for one in pattern.split("|"))


def _filled(value: str, event: _Event) -> str:
    value = re.sub(r"\$env\{([^}]*)\}", lambda found: event.properties.get(found[1], ""), value)
    number = _NUMBER.search(event.device.name)
    value = value.replace("$number", number[1] if number else "").replace("%n", number[1] if number else "")
    return value.replace("$kernel", event.device.name).replace("%k", event.device.name)
