"""What is known of a device without reading it."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv.host import contents
from localpv.host.model.devices import BlockDevice, DeviceNumber, Signature

EXT4 = Signature(type="ext4", usage="filesystem", uuid="u")
SWAP = Signature(type="swap", usage="other", uuid="")


@pytest.mark.parametrize(
    ("signatures", "said"),
    [
        ((), None),
        ((EXT4,), None),
        ((SWAP,), "it holds swap (other)"),
        ((EXT4, SWAP), "it holds ext4 (filesystem) and swap (other)"),
        ((EXT4, EXT4), "it holds ext4 (filesystem) and ext4 (filesystem)"),
    ],
)
def test_device_with_anything_but_one_file_system_is_not_looked_into(
    signatures: tuple[Signature, ...], said: str | None
) -> None:
    device = BlockDevice(
        path=Path("/dev/sdb"),
        kernel_name="sdb",
        number=DeviceNumber(8, 16),
        size_bytes=1 << 20,
        signatures=signatures,
    )
    found = contents.not_looked_into(device)
    assert (str(found) if found else None) == said
