"""The image that is there without an import: busybox, made from the one that is installed on this machine."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from localpv.engine.kubelet.images import references
from localpv.engine.kubelet.images.store import BUSYBOX, Config, Image, Images
from localpv.host import commands

SECONDS = 10.0
VERSION = "1"
"""To be raised when what is made below changes."""

_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnobody:x:65534:\n"


async def ensure(images: Images) -> Image | None:
    """Have the image there, up to date with the program; None when the machine has no static busybox."""
    found = commands.find("busybox")
    if found is None:
        return None
    program = Path(found)
    content = program.read_bytes()
    digest = hashlib.sha256(VERSION.encode() + content).hexdigest()
    image = Image(
        id=f"sha256:{digest}",
        config=Config(cmd=("sh",), env=("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)),
        size=len(content),
        created="1970-01-01T00:00:00Z",
    )
    name = references.parse(BUSYBOX)
    there = images.names().get(str(name))
    if there is not None and (there.id == image.id or there.config != image.config):
        return there  # or somebody has imported one of his own
    applets = (await commands.run(["busybox", "--list"], timeout=SECONDS)).stdout.split()
    images.add(image, [name], lambda root: _fill(root, program, applets))
    return image


def _fill(root: Path, program: Path, applets: Iterable[str]) -> None:
    for folder in ("bin", "etc", "root", "var", "home", "usr/bin", "usr/sbin", "sbin"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copy(program, root / "bin/busybox")
    (root / "bin/busybox").chmod(0o755)
    for applet in {*applets} - {"busybox"}:
        os.symlink("busybox", root / "bin" / applet)
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUP)
