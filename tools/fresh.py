"""Runs the two commands of the README as a stranger would, in a new Debian of the smallest kind with make added.

    python tools/fresh.py            set-up, `make run` until it is ready, `make quick`
    python tools/fresh.py --all      `make test` in place of `make quick`

What is committed is what runs there, with an empty home and empty caches. From this machine come only the kernel and
how package registries are reached: configuration of apt and pip, certificates, name servers. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("etc/apt/apt.conf.d", "etc/apt/auth.conf.d", "etc/resolv.conf", "etc/hosts")
CERTIFICATES, THERE = Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/ssl/of-this-machine.crt")
"""Under another name, because the package ca-certificates, which comes with Python, writes the usual file anew."""

KEPT = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "http_proxy", "https_proxy", "no_proxy")
"""Variables that say how registries are reached; no others are passed on."""

READY_SECONDS = 900.0
"""For all of set-up and the start: packages of the system and of Python are installed first."""

IN_NAMESPACES = """
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/run"
exec chroot "$0" /bin/sh -c "$1"
"""
"""Mounts and processes end with the command, whatever it leaves."""


class Failed(Exception):
    """The stranger was let down; the message says by what."""


class Fresh:
    """A root file system that was made a moment ago."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """A command in there; all that it started has ended when this returns, also after Ctrl-C."""
        process = self._start(command)
        try:
            yield process
        finally:
            process.kill()  # its child is the first process of a namespace, and dies with it
            process.wait()

    def _start(self, command: str) -> subprocess.Popen[str]:
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            **({"PIP_CERT": str(THERE)} if CERTIFICATES.exists() else {}),
        }
        return subprocess.Popen(
            [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                IN_NAMESPACES,
                str(self.root),
                command,
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )


def make_root(root: Path) -> Fresh:
    suite = next(
        line.partition("=")[2].strip('"')
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("VERSION_CODENAME=")
    )
    hook = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", hook, "--include=make,usr-is-merged", suite, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS, check=False)
    if done.returncode != 0:
        raise Failed(f"mmdebstrap exited with {done.returncode}: {done.stderr[-1000:]}")
    for name in COPIED:
        here = Path("/", name)
        if here.is_dir():
            shutil.copytree(here, root / name, dirs_exist_ok=True)
        elif here.exists():
            shutil.copy(here, root / name)
    if CERTIFICATES.exists():
        target = root / THERE.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CERTIFICATES, target)
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", "HEAD"], stdout=subprocess.PIPE)
    (root / "localpv").mkdir()
    subprocess.run(["tar", "-x", "-C", str(root / "localpv")], stdin=archive.stdout, check=True)
    if archive.wait() != 0:
        raise Failed("git archive failed: there must be a commit to try")
    return Fresh(root)


def run_until_ready(fresh: Fresh) -> None:
    """`make run`, its line that it is ready, and Ctrl-C."""
    with fresh.running("cd /localpv && exec make run") as process:
        assert process.stdout is not None
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.alarm(int(READY_SECONDS))
        ready = False
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
            if ready := line.startswith("ready "):
                break
        signal.alarm(0)
        if not ready:
            raise Failed("make run ended before it was ready")
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=READY_SECONDS)
        # make calls its own end by Ctrl-C an error; whoever looks for what failed must not find that.
        for line in [line for line in rest.splitlines() if not line.startswith("make: ***")][-3:]:
            print(f"  {line}")


def run_tests(fresh: Fresh, target: str) -> None:
    with fresh.running(f"cd /localpv && exec make {target}") as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
        if process.wait() != 0:
            raise Failed(f"make {target} exited with {process.returncode}")


def main(arguments: list[str]) -> int:
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        print("fresh: needs root and the package mmdebstrap (make fresh installs it)", file=sys.stderr)
        return 1
    target = "test" if "--all" in arguments else "quick"
    folder = Path(tempfile.mkdtemp(prefix="localpv-fresh-"))
    started = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def step(what: str) -> None:
        print(f"fresh: {what} ({time.monotonic() - started:.0f} s)", flush=True)

    try:
        step("a new Debian with make and nothing else")
        fresh = make_root(folder / "root")
        step("make run")
        run_until_ready(fresh)
        step(f"make {target}")
        run_tests(fresh, target)
        step("all done")
    except Failed as error:
        print(f"fresh: {error}", file=sys.stderr)
        return 1
    finally:
        # Nothing is mounted below it here: the mounts were in namespaces that ended with their commands.
        subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
