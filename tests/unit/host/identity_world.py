"""A made-up machine over time: which devices there are, what happens to them, and how the kernel and udev show them.

What a device *is* stands here as one object; what is shown of it is written as a tree of files and read by the code
that reads the real ones. Names collide on purpose: a machine where nothing is alike shows nothing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from localpv.host import blkid, loop
from localpv.host.devices import KernelDevices
from localpv.host.identities import KernelIdentities, Opened
from localpv.host.model.devices import DeviceNumber
from localpv.host.model.identity import Identity
from localpv.host.sysfs import Attributes
from localpv.host.workers import Workers

SECTORS = 65536
FILE_SYSTEMS = ("11111111-aaaa-4aaa-8aaa-111111111111", "22222222-aaaa-4aaa-8aaa-222222222222")


@dataclass(eq=False)
class Thing:
    """One device, as it is, whatever it is called today."""

    kind: str
    """scsi, nvme, virtio, usb, lv, md, loop or part."""

    serial: str = ""
    wwn: str = ""
    uuid: str = ""
    """Of a logical volume, an array, a partition."""

    name: str = ""
    """That people gave: of a logical volume or an array."""

    model: str = ""
    sectors: int = SECTORS
    file: tuple[int, int] = (0, 0)
    """File system and inode, of a loop device."""

    offset: int = 0
    limit: int = 0
    disk: Thing | None = None
    """What a partition is on."""

    number: int = 0
    """Of a partition."""

    def lasting(self, *, udev: bool) -> dict[str, str]:
        """Names that can be read, sort by sort."""
        found = {}
        has_serial = self.serial.strip("0") and (udev or self.kind != "usb")
        if has_serial:
            found["serial"] = self.serial
            if self.kind == "usb":
                found["link"] = f"{self.model}_{self.serial}"
        if self.wwn:
            found["wwn"] = f"{self.kind} {self.wwn}"
        if self.uuid and (udev or self.kind in ("lv", "part")):
            found["uuid"] = self.uuid
        if self.kind == "loop" and udev:
            found["file"] = f"{self.file} {self.offset} {self.limit}"
        if self.disk is not None:
            above = self.disk.lasting(udev=udev)
            found |= {sort: f"{above[sort]} part {self.number}" for sort in ("serial", "wwn") if sort in above}
        return found

    def others_see(self, *, udev: bool) -> dict[str, str]:
        """As `lasting`, without what stands on the device itself, which only udev reads of all devices."""
        found = self.lasting(udev=udev)
        if self.kind == "part" and not udev:
            found.pop("uuid", None)
        return found

    def contradicts(self, names: dict[str, str], other: Thing, theirs: dict[str, str]) -> bool:
        mine, its = (self.disk or self).model, (other.disk or other).model
        return (
            any(sort in theirs and theirs[sort] != value for sort, value in names.items())
            or (bool(mine and its) and mine != its)
            or (self.kind == other.kind == "part" and self.offset != other.offset)
        )


@dataclass(frozen=True)
class Place:
    """Where a device is at one moment."""

    name: str
    number: DeviceNumber
    sequence: int


@dataclass
class World:
    """The machine now."""

    random: Random
    things: list[Thing] = field(default_factory=list)
    places: dict[Thing, Place] = field(default_factory=dict)
    boot: int = 0
    udev: bool = True
    sequence: int = 0
    file_systems: list[int] = field(default_factory=lambda: [0, 1])
    """Which number each file system has in this boot."""

    made: int = 0

    def a_name(self, *shared: str) -> str:
        """A name of its own, or one of a few that others may get as well."""
        self.made += 1
        return self.random.choice([*shared, f"own{self.made}", f"own{self.made}"])

    def populate(self) -> None:
        for _ in range(self.random.randint(2, 5)):
            self.things.append(self._disk())
        for disk in [thing for thing in self.things if self.random.random() < 0.3]:
            self.things.append(replace(disk))  # a copy, with all of its names
        for disk in [thing for thing in self.things if thing.kind in ("scsi", "virtio") and self.random.random() < 0.4]:
            self.things += [
                Thing(
                    kind="part",
                    disk=disk,
                    number=number,
                    offset=2048 * number,
                    uuid=self.a_name("", "P1"),
                    sectors=1024,
                )
                for number in (1, 2)
            ]
        regions = {(self.random.randint(0, 1), 12, offset, limit) for offset in (0, 4096) for limit in (0, 8192)}
        for file_system, inode, offset, limit in self.random.sample(sorted(regions), self.random.randint(0, 3)):
            self.things.append(Thing(kind="loop", file=(file_system, inode), offset=offset, limit=limit))
        for kind in ("lv", "lv", "md"):
            if self.random.random() < 0.5:
                self.things.append(Thing(kind=kind, uuid=self._uuid(), name=self.random.choice("ab")))
        self.restart()

    def _uuid(self) -> str:
        self.made += 1
        return f"uuid{self.made}"

    def _disk(self) -> Thing:
        kind = self.random.choice(["scsi", "nvme", "virtio", "usb"])
        return Thing(
            kind=kind,
            serial=self.a_name("", "", "0000", "S1"),
            wwn=self.a_name("", "W1") if kind in ("scsi", "nvme") else "",
            model=self.random.choice(["M", "N"]) if kind != "virtio" else "",
            sectors=self.random.choice([SECTORS, 2 * SECTORS]),
        )

    # What happens.

    def restart(self) -> None:
        self.boot, self.sequence, self.places = self.boot + 1, 0, {}
        self.udev = self.random.random() < 0.8
        self.random.shuffle(self.file_systems)
        present = [thing for thing in self.things if thing.disk is None]
        self.random.shuffle(present)
        for thing in present:
            if self.random.random() < 0.9:
                self.plug(thing)

    def plug(self, thing: Thing) -> None:
        """Into the first port that is free, or another one."""
        taken = {place.number for place in self.places.values()}
        prefix, major = {
            "nvme": ("nvme", 259),
            "virtio": ("vd", 253),
            "lv": ("dm-", 252),
            "md": ("md", 9),
            "loop": ("loop", 7),
        }.get(thing.kind, ("sd", 8))
        free = [slot for slot in range(12) if DeviceNumber(major, 16 * slot) not in taken]
        slot = self.random.choice(free[:3])
        name = f"{prefix}{slot}n1" if prefix == "nvme" else f"{prefix}{slot}"
        self.sequence += 1
        self.places[thing] = Place(name, DeviceNumber(major, 16 * slot), self.sequence)
        for part in self.things:
            if part.disk is thing:
                number = DeviceNumber(major, 16 * slot + part.number)
                self.places[part] = Place(f"{name}p{part.number}", number, self.sequence)

    def unplug(self, thing: Thing) -> None:
        self.places = {it: place for it, place in self.places.items() if thing not in (it, it.disk)}

    def happen(self) -> None:
        """One thing or the other."""
        what = self.random.choice(["restart", "restart", "move", "swap", "pull", "put", "grow", "make anew"])
        whole = [thing for thing in self.places if thing.disk is None]
        match what:
            case "restart":
                self.restart()
            case "move" if whole:
                thing = self.random.choice(whole)
                self.unplug(thing)
                self.plug(thing)
            case "swap" if len(whole) > 1:
                pair = self.random.sample(whole, 2)
                for thing in pair:
                    self.unplug(thing)
                for thing in reversed(pair):
                    self.plug(thing)
            case "pull" if whole:
                self.unplug(self.random.choice(whole))
            case "put":
                for thing in self.things:
                    if thing.disk is None and thing not in self.places:
                        self.plug(thing)
            case "grow" if whole:
                self.random.choice(whole).sectors *= 2
            case "make anew":
                for old in [thing for thing in whole if thing.kind == "lv"]:
                    self.unplug(old)
                    self.things.append(Thing(kind="lv", uuid=self._uuid(), name=old.name, sectors=old.sectors))
                    self.plug(self.things[-1])


class FakeIdentities(KernelIdentities):
    """Reads all files as the real one does; a device that would be opened says in its node what it would answer."""

    def number(self, path: Path) -> DeviceNumber:
        return DeviceNumber.parse(json.loads(path.read_text())["number"])

    def opened(self, path: Path, own: Attributes, number: DeviceNumber) -> Opened:
        told = json.loads(path.read_text())
        found = blkid.Found(part_uuid=told["part_uuid"])
        return Opened(size_bytes=own.number("size") * 512, found=found, loop=self.loop_status(path))

    def loop_status(self, path: Path) -> loop.Status | None:
        told = json.loads(path.read_text())["loop"]
        if told is None:
            return None
        file_system, inode, offset, limit = told
        return loop.Status(
            file_system=DeviceNumber(254, file_system),
            inode=inode,
            below=DeviceNumber(0, 0),
            offset_bytes=offset,
            size_limit_bytes=limit,
            going=False,
            name=b"",
        )


def show(world: World, root: Path) -> dict[Thing, Identity]:
    """Write the machine as files, and read who is who."""
    for name in ("dev", "sys/dev/block", "sys/class/block", "sys/block", "run/udev/data", "proc/self"):
        (root / name).mkdir(parents=True)
    _write(root / "proc/sys/kernel/random/boot_id", f"boot-{world.boot}\n")
    lines = [f"{20 + it} 1 254:{today} / /images{it} rw - xfs /dev/x rw" for it, today in enumerate(world.file_systems)]
    _write(root / "proc/self/mountinfo", "\n".join(lines) + "\n")
    for file_system, today in enumerate(world.file_systems):
        if world.udev:
            _write(root / f"run/udev/data/b254:{today}", f"E:ID_FS_UUID={FILE_SYSTEMS[file_system]}\n")
    for thing, place in sorted(world.places.items(), key=lambda item: item[0].disk is not None):
        _show(world, thing, place, root)
    devices = KernelDevices(
        workers=Workers(),
        dev=root / "dev",
        sys=root / "sys",
        proc=root / "proc",
        run=root / "run",
        identities=FakeIdentities,
    )
    return {
        thing: devices.describe_now(root / "dev" / place.name, exclusive=False).identity
        for thing, place in world.places.items()
    }


def _show(world: World, thing: Thing, place: Place, root: Path) -> None:
    blocks = root / "sys/devices/block"
    folder = blocks / place.name if thing.disk is None else blocks / world.places[thing.disk].name / place.name
    files = {"dev": str(place.number), "size": str(thing.sectors)}
    udev = []
    model = thing.model
    if thing.disk is not None:
        files |= {"partition": str(thing.number), "start": str(thing.offset)}
        if thing.uuid:
            udev.append(f"E:ID_PART_ENTRY_UUID={thing.uuid}")
        if thing.disk.kind == "scsi" and thing.disk.wwn:
            udev.append(f"S:disk/by-id/wwn-0x{thing.disk.wwn}-part{thing.number}")
    else:
        files |= {"diskseq": str(place.sequence), "device/model": model}
    match thing.kind:
        case "scsi":
            files |= {"device/serial": thing.serial, "device/wwid": f"naa.{thing.wwn}" if thing.wwn else ""}
            if thing.wwn:
                udev += [f"S:disk/by-id/wwn-0x{thing.wwn}", f"S:disk/by-id/scsi-3{thing.wwn}"]
            udev.append("E:ID_BUS=scsi")
        case "nvme":
            files |= {"device/serial": thing.serial, "wwid": f"eui.{thing.wwn}" if thing.wwn else ""}
            udev.append(f"S:disk/by-id/nvme-eui.{thing.wwn}" if thing.wwn else "E:NO=1")
        case "virtio":
            files |= {"serial": thing.serial}
            if thing.serial.strip("0"):
                udev.append(f"S:disk/by-id/virtio-{thing.serial}")
        case "usb":
            whole = f"{model}_{thing.serial}" if thing.serial else model
            udev += ["E:ID_BUS=usb", f"E:ID_SERIAL={whole}", f"S:disk/by-id/usb-{whole}-0:0"]
            if thing.serial:
                udev.append(f"E:ID_SERIAL_SHORT={thing.serial}")
        case "lv":
            files |= {"dm/uuid": f"LVM-{thing.uuid}"}
            udev += [f"S:disk/by-id/dm-name-vg-{thing.name}", f"S:disk/by-id/dm-uuid-LVM-{thing.uuid}"]
        case "md":
            files |= {"md/level": "raid1"}
            udev += [f"S:disk/by-id/md-name-host:{thing.name}", f"S:disk/by-id/md-uuid-{thing.uuid}"]
        case "loop":
            files |= {"loop/backing_file": "/not/in/this/namespace"}
    for name, text in files.items():
        if text:
            _write(folder / name, text + "\n")
    if world.udev:
        _write(root / f"run/udev/data/b{place.number}", "\n".join(udev) + "\n")
    for link in (f"sys/dev/block/{place.number}", f"sys/class/block/{place.name}"):
        os.symlink(folder, root / link)
    if thing.disk is None:
        os.symlink(folder, root / "sys/block" / place.name)
    file_system = world.file_systems[thing.file[0]]
    region = [file_system, thing.file[1], thing.offset, thing.limit] if thing.kind == "loop" else None
    node = {"number": str(place.number), "part_uuid": thing.uuid if thing.kind == "part" else "", "loop": region}
    _write(root / "dev" / place.name, json.dumps(node))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
