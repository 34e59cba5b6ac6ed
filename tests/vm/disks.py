"""The disks of the virtual machine, as the emulator is told about them: outside for the first ones, and inside, by QMP,
for those that come later."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MIB = 1024 * 1024
HDD, SSD = 7200, 1
"""Rotation rates: turns per minute, and the number that stands for none."""


class Bus(StrEnum):
    SCSI = "scsi"
    SATA = "sata"
    NVME = "nvme"
    VIRTIO = "virtio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One disk. Its serial number is also its name at the emulator, and that of its file."""

    serial: str
    bus: Bus
    mib: int = 32
    rotation: int = SSD
    wwn: int = 0
    port: int = 0
    """SATA only: which of the six ports."""

    slot: str = ""
    """NVMe that comes later: the port it is put into."""

    path_to: str = ""
    """Another path to the disk with this serial number; its own number is then only its name at the emulator."""

    shared: bool = False
    """Whether there are several paths to it."""

    shown: str = ""
    """Serial number that it shows, if that is not its name."""

    @property
    def number(self) -> str:
        """The serial number that the machine sees."""
        return self.shown or self.path_to or self.serial

    @property
    def file(self) -> str:
        return f"{self.path_to or self.serial}.img"

    @property
    def driver(self) -> str:
        return {"scsi": "scsi-hd", "sata": "ide-hd", "nvme": "nvme", "virtio": "virtio-blk-pci"}[self.bus]

    def device(self) -> dict[str, str | int]:
        """Arguments of the emulator's device."""
        about: dict[str, str | int] = {"driver": self.driver, "id": self.serial}
        about["serial"] = self.number
        about["drive"] = f"file-{self.serial}"
        if self.bus is Bus.SCSI:
            about["bus"] = "scsi0.0"
        elif self.bus is Bus.SATA:
            about["bus"] = f"ide.{self.port}"
        elif self.slot:
            about["bus"] = self.slot
        if self.bus in (Bus.SCSI, Bus.SATA):
            about["rotation_rate"] = self.rotation
            if self.wwn:
                about["wwn"] = self.wwn
        if self.shared:
            about["share-rw"] = "on"
        return about

    def backend(self, path: str) -> dict[str, object]:
        """Arguments of the emulator's block device behind it."""
        file = {"driver": "file", "filename": path, "discard": "unmap", "cache": {"direct": False, "no-flush": True}}
        if self.shared:
            file["locking"] = "off"
        return {"node-name": f"file-{self.serial}", "driver": "raw", "discard": "unmap", "file": file}


HERE = (
    Disk(serial="SCSISSD", bus=Bus.SCSI, wwn=0x5000C500A0000001),
    Disk(serial="SCSIHDD", bus=Bus.SCSI, rotation=HDD),
    Disk(serial="SCSITWO", bus=Bus.SCSI, wwn=0x5000C500A0000003),
    Disk(serial="SATASSD", bus=Bus.SATA, wwn=0x5000C500A0000004, port=0),
    Disk(serial="SATAHDD", bus=Bus.SATA, rotation=HDD, port=1),
    Disk(serial="NVMEONE", bus=Bus.NVME),
    Disk(serial="NVMETWO", bus=Bus.NVME),
    Disk(serial="VIRTIO1", bus=Bus.VIRTIO),
)
"""The disks that every machine starts with."""

SLOTS = ("slot1", "slot2")
"""Ports for NVMe disks that come later."""

SYSTEM = Disk(serial="SYSTEM", bus=Bus.SCSI, mib=128)
"""What a machine that is started again keeps its files on."""

SPARE = Disk(serial="SPARE", bus=Bus.SCSI)
_OTHERS = (
    Disk(serial="BOOTHDD1", bus=Bus.SCSI, rotation=HDD),
    Disk(serial="BOOTHDD2", bus=Bus.SCSI, rotation=HDD),
    Disk(serial="BOOTNVME1", bus=Bus.NVME),
    Disk(serial="BOOTNVME2", bus=Bus.NVME),
    Disk(serial="BOOTVIRTIO1", bus=Bus.VIRTIO),
    Disk(serial="BOOTVIRTIO2", bus=Bus.VIRTIO),
)
STARTS = ((SYSTEM, *_OTHERS, SPARE), (SPARE, *reversed(_OTHERS), SYSTEM))
"""The disks of a machine that is started twice: the second time it finds them the other way round, so each has the name
that the kernel gave to another before."""
