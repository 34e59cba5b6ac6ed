"""The kernel that the virtual machine boots: Debian's, unpacked into a cache and never installed.

The kernel of the machine that runs the tests may have neither the drivers nor the modules. What is made here is kept by
the name of the package, and is used from then on without asking apt or the network again.
"""

from __future__ import annotations

import contextlib
import fcntl
import lzma
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

META_PACKAGE = "linux-image-amd64"
"""Depends on the newest kernel of the release."""

TOOL_SECONDS = 600
FIRST_MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")
"""What it takes to reach the machine's root file system; all others are loaded from there."""

FIRST_PROGRAM = Path(__file__).parent / "first.sh"


class Missing(Exception):
    """There is no kernel and none can be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel."""

    folder: Path

    @property
    def image(self) -> Path:
        return self.folder / "vmlinux"

    @property
    def modules(self) -> Path:
        """What belongs at /lib/modules."""
        return self.folder / "lib" / "modules"

    def initramfs(self) -> Path:
        """The first file system, made anew when the program in it has changed."""
        made = self.folder / "first.cpio"
        if not made.exists() or made.stat().st_mtime < FIRST_PROGRAM.stat().st_mtime:
            _make_initramfs(self, made)
        return made


def cache() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "localpv" / "vm"


def get() -> Kernel:
    """The newest kernel in the cache; where there is none, apt is asked for one."""
    cache().mkdir(parents=True, exist_ok=True)
    with _locked(cache() / "lock"):
        known = sorted((image.stat().st_mtime, image.parent) for image in cache().glob("linux-image-*/vmlinux"))
        return Kernel(known[-1][1] if known else _fetch())


def _fetch() -> Path:
    try:
        told = _run("apt-cache", "depends", META_PACKAGE)
        name = next(line.split()[1] for line in told.splitlines() if "Depends:" in line)
        with tempfile.TemporaryDirectory(dir=cache(), prefix=".fetching-") as scratch:
            _run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name, cwd=scratch)
            package = next(Path(scratch).glob("*.deb"))
            made = Path(scratch) / "made"
            _run("dpkg-deb", "-x", str(package), str(made))
            _unpack(made)
            # The last act: what has its final name is whole.
            os.rename(made, cache() / name)
    except (OSError, StopIteration, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise Missing(
            f"the virtual machine needs a kernel, and apt did not give {META_PACKAGE}: {said.strip()[-300:]};"
            " run `apt-get update` with a network once"
        ) from error
    return cache() / name


def _unpack(folder: Path) -> None:
    packed = next((folder / "boot").glob("vmlinuz-*"))
    version = packed.name.removeprefix("vmlinuz-")
    if (folder / "usr/lib/modules").is_dir() and not (folder / "lib").exists():
        (folder / "usr/lib").rename(folder / "lib")
    _run("depmod", "-b", str(folder), version)
    (folder / "vmlinux").write_bytes(_elf(packed.read_bytes()))
    for name in ("boot", "usr"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _elf(packed: bytes) -> bytes:
    """The kernel proper inside a bzImage: the machine starts it at once, instead of unpacking it in emulation."""
    if packed[0x202:0x206] != b"HdrS":
        raise OSError("the package holds no kernel for this architecture")
    sectors = packed[0x1F1] or 4
    start, length = struct.unpack_from("<II", packed, 0x248)
    payload = packed[(sectors + 1) * 512 + start :][:length]
    if not payload.startswith(b"\xfd7zXZ\0"):
        return packed  # packed in another way: the machine can start it too, more slowly
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(payload)


def _make_initramfs(kernel: Kernel, made: Path) -> None:
    version = next(kernel.modules.iterdir()).name
    with tempfile.TemporaryDirectory(dir=kernel.folder) as scratch:
        root = Path(scratch)
        for name in ("bin", "modules", "proc", "sys", "dev", "lower", "upper", "root"):
            (root / name).mkdir()
        busybox = shutil.which("busybox")
        if busybox is None:
            raise Missing("busybox is not installed")
        shutil.copy(busybox, root / "bin")
        shutil.copy(FIRST_PROGRAM, root / "init")
        (root / "init").chmod(0o755)
        order: dict[str, Path] = {}
        for module in FIRST_MODULES:
            told = _run("modprobe", "-d", str(kernel.folder), "-S", version, "--show-depends", module)
            for line in told.splitlines():
                if line.startswith("insmod "):
                    path = Path(line.split()[1])
                    order.setdefault(path.name, path)
        for name, path in order.items():
            shutil.copy(path, root / "modules" / name)
        (root / "modules" / "order").write_text("".join(f"{name}\n" for name in order))
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        fresh = made.with_suffix(".new")
        with fresh.open("wb") as archive:
            subprocess.run(
                ["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), stdout=archive, check=True
            )
        os.replace(fresh, made)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(*argv: str, cwd: str | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True, timeout=TOOL_SECONDS)
    return done.stdout
