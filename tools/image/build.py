"""Makes localpv's image without Docker and without a registry: the content that the Dockerfile describes.

`python -m tools.image.build` prints the archive and its size; `ctr -n k8s.io images import` takes it. Three layers,
each cached by what it is made from: Debian with our tools, the Python packages, localpv itself. So a change of our
code costs seconds. Remove the cache (`~/.cache/localpv/image`) to get newer packages.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import archive

PROJECT = Path(__file__).parents[2]
HERE = Path(__file__).parent
TAG = "localhost/localpv:test"
TARGET = "opt/localpv"
COMMAND_SECONDS = 600


class CannotBuild(Exception):
    """The image cannot be made here; the message says what is missing or what failed."""


def archive_of_localpv() -> Path:
    """The archive of the image, made first where it is out of date."""
    with _locked(_cache()) as cache:
        base = _base(cache)
        dependencies = _dependencies(cache, base)
        source = _source(cache, base)
        target = cache / f"localpv-{_hash(base.name, dependencies.name, source.name, json.dumps(_config()))}.tar"
        if not target.exists():
            archive.write(target, tag=TAG, layers=[base, dependencies, source], config=_config())
            _forget_others(target, "localpv-*.tar")
        return target


def size_text(path: Path) -> str:
    """For people."""
    return f"{path.stat().st_size / 1e6:.0f} MB unpacked"


def _base(cache: Path) -> Path:
    """Debian with the packages we need, as a layer; unpacked beside it, since the next layers are compiled with it."""
    packages = (HERE / "packages.txt").read_text().split()
    layer = cache / f"base-{_hash(_suite(), *packages, (HERE / 'slim.sh').read_text())}.tar"
    if layer.exists():
        return layer
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        raise CannotBuild("localpv's image is not built, which needs root and the package mmdebstrap")
    root = _unpacked(layer)
    shutil.rmtree(root, ignore_errors=True)
    _run(
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"),
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "locale")),
        *(f"--include={','.join(['usr-is-merged', *packages])}", _suite(), str(root)),
    )
    shutil.copy(HERE / "slim.sh", root / "tmp" / "slim.sh")
    _run("chroot", str(root), "sh", "/tmp/slim.sh")
    (root / "tmp" / "slim.sh").unlink()
    new = layer.with_suffix(".new")
    _run(
        *("tar", "--create", "--file", str(new), "--directory", str(root), "--sort=name", "--numeric-owner"),
        *(f"--mtime=@{archive.WHOLE_SECOND}", "--exclude=./dev/*", "."),
    )
    new.rename(layer)
    _forget_others(layer, "base-*")
    return layer


def _dependencies(cache: Path, base: Path) -> Path:
    """The Python packages that pyproject.toml asks for, for the Python of the base."""
    wanted = sorted(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"])
    layer = cache / f"dependencies-{_hash(base.name, *wanted)}.tar"
    if not layer.exists():
        version = _run("chroot", str(_unpacked(base)), "python3", "-c", "import sys; print(*sys.version_info[:2])")
        platforms = [f"manylinux_2_{minor}_{platform.machine()}" for minor in (17, 24, 28, 31, 34)]
        with _stage(base) as stage:
            _pip(
                *("--only-binary=:all:", "--implementation=cp", f"--python-version={'.'.join(version.split())}"),
                *(f"--platform={name}" for name in platforms),
                *("--target", str(stage), *wanted),
            )
            _write_layer(layer, stage, base)
        _forget_others(layer, "dependencies-*")
    return layer


def _source(cache: Path, base: Path) -> Path:
    """localpv itself, built as a wheel is."""
    files = [PROJECT / "pyproject.toml", PROJECT / "README.md", PROJECT / "LICENSE", HERE / "localpv"]
    code = [path for path in sorted((PROJECT / "src").rglob("*")) if path.is_file() and _is_ours(path)]
    content = [f"{path.relative_to(PROJECT)}\n{path.read_bytes().hex()}" for path in (*files, *code)]
    layer = cache / f"source-{_hash(base.name, *content)}.tar"
    if not layer.exists():
        with _stage(base) as stage, tempfile.TemporaryDirectory() as temporary:
            # Setuptools leaves its own folders where it builds.
            for path in (*files, *code):
                copy = Path(temporary) / path.relative_to(PROJECT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
            _pip("--no-deps", "--target", str(stage), temporary)
            _write_layer(layer, stage, base, {"usr/local/bin/localpv": (HERE / "localpv").read_bytes()})
        _forget_others(layer, "source-*")
    return layer


def _is_ours(path: Path) -> bool:
    return not any(part == "__pycache__" or part.endswith(".egg-info") for part in path.parts)


def _write_layer(layer: Path, stage: Path, base: Path, programs: dict[str, bytes] | None = None) -> None:
    shutil.rmtree(stage / "bin", ignore_errors=True)
    for record in stage.glob("*.dist-info"):
        # Where it was built, and sums of files that are not there any more.
        for name in ("direct_url.json", "RECORD", "REQUESTED"):
            (record / name).unlink(missing_ok=True)
    inside = "/" + str(stage.relative_to(_unpacked(base)))
    # The paths inside are those of the finished image, so that tracebacks name existing files.
    compiler = ["python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    _run("chroot", str(_unpacked(base)), *compiler, "-s", inside, "-p", f"/{TARGET}", inside)
    new = layer.with_suffix(".new")
    with tarfile.open(new, "w") as tar:
        archive.add_tree(tar, stage, TARGET)
        for name, content in (programs or {}).items():
            archive.add_bytes(tar, name, content, mode=0o755)
    new.rename(layer)


def _pip(*words: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile", "--root-user-action=ignore")
    _run(sys.executable, "-m", "pip", "install", *quiet, *words)


@contextlib.contextmanager
def _stage(base: Path) -> Iterator[Path]:
    """A folder inside the unpacked base, where its Python sees it."""
    with tempfile.TemporaryDirectory(dir=_unpacked(base) / "tmp", prefix="stage-") as folder:
        yield Path(folder)


def _unpacked(base: Path) -> Path:
    return base.with_suffix("")


def _config() -> dict[str, Any]:
    """What the Dockerfile says about running the image."""
    text = (PROJECT / "Dockerfile").read_text()
    found = {word: rest for word, rest in re.findall(r"^(ENV|USER|ENTRYPOINT) (.+)$", text, re.MULTILINE)}
    return {
        "Entrypoint": json.loads(found["ENTRYPOINT"]),
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *found["ENV"].split()],
        "User": found["USER"],
        "WorkingDir": "/",
    }


def _suite() -> str:
    """The Debian release that the Dockerfile builds on."""
    found = re.findall(r"^FROM debian:(\w+)-slim", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(set(found)) == 1, f"the Dockerfile should build on one release of Debian, not on {found}"
    return str(found[0])


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "localpv" / "image"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Two builds at once would unpack into the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _forget_others(kept: Path, pattern: str) -> None:
    for path in kept.parent.glob(pattern):
        if path not in (kept, _unpacked(kept)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join((*parts, Path(__file__).read_text())).encode()).hexdigest()[:16]


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise CannotBuild(f"{argv[0]} failed while localpv's image was built: {' / '.join(lines[-3:])}")
    return done.stdout


def main() -> int:
    """Build and tell where it is."""
    try:
        made = archive_of_localpv()
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{made} {TAG} {size_text(made)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
