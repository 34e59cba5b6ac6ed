"""The images that Kubernetes' own tests name, made on this machine under those names.

Nothing is pulled: what an image would hold is put together from busybox, from agnhost, which is built like the tests,
and from a few programs of this machine.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kubernetes import build, certificates
from tests.kubernetes.images import PROGRAM, write_layer
from tools.image import archive

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REGISTRY = "registry.k8s.io/"
"""Images of other registries are named to see that they cannot be had."""

PAUSE = "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait; done"
WEB_SERVER = "trap 'exit 0' TERM INT QUIT; httpd -f -p 80 -h /usr/share/nginx/html & wait"
USERS = b"user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n"
GROUPS = b"user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one image is made."""

    config: Mapping[str, Any]
    fill: Callable[[tarfile.TarFile], None] = lambda tar: None
    """Adds to a layer that has busybox."""

    without: Sequence[str] = field(default=())
    """Names under which busybox is not wanted."""

    needs: Sequence[Path] = field(default=())
    """Programs that go in."""


def _shell(tar: tarfile.TarFile) -> None:
    # Busybox' own shell does not pass on variables such as data-1, which no shell could name.
    _add_program(tar, Path("/bin/bash"))
    archive.add_link(tar, "bin/sh", "bash")


def _agnhost(tar: tarfile.TarFile) -> None:
    archive.add_bytes(tar, "agnhost", build.program("agnhost").read_bytes(), mode=0o755)
    archive.add_link(tar, "agnhost-2", "agnhost")
    archive.add_folder(tar, "uploads")
    # Files that specs ask its servers for, and that its servers serve with.
    with tempfile.TemporaryDirectory() as folder:
        pair = certificates.Authority(Path(folder)).issue("localhost", user="localhost", names=["localhost"])
        archive.add_bytes(tar, "localhost.crt", pair.certificate.read_bytes())
        archive.add_bytes(tar, "localhost.key", pair.key.read_bytes())
    # Busybox' own would start its own shell in place of the node's.
    _add_program(tar, Path("/usr/bin/nsenter"))


def _setuid(tar: tarfile.TarFile) -> None:
    archive.add_bytes(tar, "usr/local/bin/nnp", build.program("nnp").read_bytes(), mode=0o4755)


def _web_server(tar: tarfile.TarFile) -> None:
    archive.add_bytes(tar, "usr/share/nginx/html/index.html", b"<html><body><h1>It works!</h1></body></html>\n")


def _add_program(tar: tarfile.TarFile, program: Path) -> None:
    """Add a program of this machine and the files that the loader finds for it."""
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    for path in [program, *(Path(name) for name in re.findall(r"(/\S+) \(0x", told))]:
        archive.add_bytes(tar, str(path).lstrip("/"), path.read_bytes(), mode=0o755)


def recipes() -> dict[str, Recipe]:
    """By the name of the image, without its registry and version."""
    return {
        "agnhost": Recipe(
            config={"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}, fill=_agnhost, needs=[build.program("agnhost")]
        ),
        "busybox": Recipe(config={"Cmd": ["sh"]}, fill=_shell, without=["sh", "bash"]),
        "nginx": Recipe(config={"Cmd": ["sh", "-c", WEB_SERVER]}, fill=_web_server),
        "nonewprivs": Recipe(config={"Cmd": ["nnp"]}, fill=_setuid, needs=[build.program("nnp")]),
        "nonroot": Recipe(config={"Cmd": ["sh"], "User": "1234"}),
        "pause": Recipe(config={"Entrypoint": ["sh", "-c", PAUSE]}),
    }


def make(names: Sequence[str]) -> dict[str, Path]:
    """Archives for those of the named images that can be made here, made once."""
    known, found = recipes(), {}
    for name in names:
        short = name.rpartition("/")[2].partition(":")[0]
        if short in known and name.startswith(REGISTRY):
            found[name] = _archive(short, known[short])
    return found


def _archive(short: str, recipe: Recipe) -> Path:
    folder = build.cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    content = [PROGRAM, Path(__file__), *recipe.needs]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in content)).hexdigest()[:12]
    path = folder / f"e2e-{short}-{version}.tar"
    if not path.exists():
        with tempfile.TemporaryDirectory() as temporary:
            layer = Path(temporary) / "layer.tar"
            write_layer(layer, fill=recipe.fill, without=recipe.without, users=USERS, groups=GROUPS)
            config = {"Env": [PATH], "WorkingDir": "/", **recipe.config}
            archive.write(path, tag=f"localhost/{short}:e2e", layers=[layer], config=config)
    return path
