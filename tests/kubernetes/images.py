"""The images of test pods, made on this machine: busybox, and the one that holds a pod's namespaces."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from tests.kubernetes import build
from tools.image import archive

BUSYBOX = "localhost/busybox:test"
PAUSE = "localhost/pause:test"
PROGRAM = Path("/bin/busybox")


def busybox() -> list[Path]:
    """The archives of busybox and of the pause image, made once per version of the program."""
    folder = build.cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    version = hashlib.sha256(PROGRAM.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:12]
    made = []
    for name, tag, command in (
        ("busybox", BUSYBOX, ["sh"]),
        ("pause", PAUSE, ["/bin/sleep", "2147483647"]),
    ):
        path = folder / f"{name}-{version}.tar"
        if not path.exists():
            with tempfile.TemporaryDirectory() as temporary:
                layer = Path(temporary) / "layer.tar"
                write_layer(layer)
                config = {"Cmd": command, "Env": ["PATH=/bin"], "WorkingDir": "/"}
                archive.write(path, tag=tag, layers=[layer], config=config)
        made.append(path)
    return made


def write_layer(
    path: Path,
    *,
    fill: Callable[[tarfile.TarFile], None] = lambda tar: None,
    without: Collection[str] = (),
    users: bytes = b"",
    groups: bytes = b"",
) -> None:
    """Write a layer with busybox under all its names but some, root and nobody, and what the caller adds."""
    told = subprocess.run([PROGRAM, "--list"], capture_output=True, text=True, check=True)
    applets = sorted({*told.stdout.split()} - {"busybox", *without})
    with tarfile.open(path, "w") as tar:
        for folder in ("bin", "etc", "root", "var"):
            archive.add_folder(tar, folder)
        archive.add_folder(tar, "tmp", mode=0o1777)
        archive.add_bytes(tar, "bin/busybox", PROGRAM.read_bytes(), mode=0o755)
        for applet in applets:
            archive.add_link(tar, f"bin/{applet}", "busybox")
        nobody = b"nobody:x:65534:65534:nobody:/:/bin/sh\n"
        archive.add_bytes(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n" + nobody + users)
        archive.add_bytes(tar, "etc/group", b"root:x:0:\nnobody:x:65534:\n" + groups)
        fill(tar)
