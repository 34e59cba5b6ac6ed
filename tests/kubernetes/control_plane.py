"""A real Kubernetes control plane on this machine: etcd, kube-apiserver and, when asked for, kube-controller-manager.

`python -m tests.kubernetes.control_plane --dir DIR` keeps one in the foreground until SIGTERM or Ctrl-C;
`DIR/kubeconfig` is complete when the line "ready ..." is printed. No kubelet and no scheduler run with it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.kubernetes import build, certificates

READY_SECONDS = 60.0
STOP_SECONDS = 10.0


class NotReady(Exception):
    """A program ended or did not answer in time; the message carries the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A running control plane."""

    folder: Path
    url: str
    kubeconfig: Path
    etcd_url: str
    """Tests compact the history through it; nothing else should talk to it."""

    controllers: bool


@dataclass(slots=True)
class _Programs:
    """The processes of one control plane, stopped in the reverse order of their start."""

    logs: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, argv: Sequence[str | Path], *, name: str) -> subprocess.Popen[bytes]:
        with (self.logs / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C reaches us alone, and we stop the programs in order.
            process = subprocess.Popen(
                [str(part) for part in argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.running.append(process)
        return process

    def stop(self) -> None:
        for process in reversed(self.running):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()

    def wait_ready(self, process: subprocess.Popen[bytes], url: str, *, authority: Path | None, name: str) -> None:
        context = ssl.create_default_context(cafile=str(authority)) if authority else None
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(url, timeout=2, context=context) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.1)
        tail = (self.logs / f"{name}.log").read_text(errors="replace")[-3000:]
        raise NotReady(f"{name} did not become ready at {url}\n{tail}")


@contextlib.contextmanager
def running(*, folder: Path | None = None, controllers: bool = False, port: int = 0) -> Iterator[ControlPlane]:
    """A control plane that lives as long as the with-block; everything it wrote goes with it."""
    place = Path(tempfile.mkdtemp(prefix="localpv-kubernetes-")) if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    programs = _Programs(logs=place)
    try:
        yield _start(place, programs, controllers=controllers, port=port)
    finally:
        programs.stop()
        shutil.rmtree(place, ignore_errors=True)


def _start(folder: Path, programs: _Programs, *, controllers: bool, port: int) -> ControlPlane:
    etcd = build.program("etcd")
    api_server = build.program("kube-apiserver")
    files = certificates.write(folder / "certificates")
    tokens = folder / "tokens.csv"
    admin_token = secrets.token_hex(16)
    _write_private(tokens, f'{admin_token},admin,admin,"system:masters"\n')

    etcd_port, peer_port, api_port = _free_ports(3)
    api_port = port or api_port
    etcd_url, url = f"http://127.0.0.1:{etcd_port}", f"https://127.0.0.1:{api_port}"
    process = programs.start(
        [
            etcd,
            *("--name", "tests", "--data-dir", folder / "etcd", "--log-level", "warn"),
            *("--listen-client-urls", etcd_url, "--advertise-client-urls", etcd_url),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer_port}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer_port}"),
            *("--initial-cluster", f"tests=http://127.0.0.1:{peer_port}"),
        ],
        name="etcd",
    )
    programs.wait_ready(process, f"{etcd_url}/health", authority=None, name="etcd")

    process = programs.start(
        [
            api_server,
            *("--etcd-servers", etcd_url, "--storage-media-type", "application/json"),
            *("--bind-address", "127.0.0.1", "--secure-port", str(api_port), "--cert-dir", folder / "certificates"),
            *("--tls-cert-file", files.serving_certificate, "--tls-private-key-file", files.serving_key),
            *("--client-ca-file", files.authority, "--token-auth-file", tokens),
            *("--authorization-mode", "Node,RBAC", "--endpoint-reconciler-type", "none"),
            *("--service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            *("--service-account-key-file", files.signing_key, "--service-account-signing-key-file", files.signing_key),
            *("--service-cluster-ip-range", "10.0.0.0/24"),
            # Nobody makes the default service account of a namespace when no controller runs,
            # and pods would be refused for the want of it.
            *(() if controllers else ("--disable-admission-plugins", "ServiceAccount")),
        ],
        name="kube-apiserver",
    )
    programs.wait_ready(process, f"{url}/readyz", authority=files.authority, name="kube-apiserver")
    kubeconfig = folder / "kubeconfig"
    # Renamed into place, since others wait for this file to appear.
    _write_private(folder / "kubeconfig.new", _kubeconfig(url, files.authority, admin_token))
    (folder / "kubeconfig.new").rename(kubeconfig)
    (folder / "etcd-url").write_text(etcd_url + "\n")

    if controllers:
        (manager_port,) = _free_ports(1)
        process = programs.start(
            [
                build.program("kube-controller-manager"),
                *("--kubeconfig", kubeconfig, "--leader-elect=false"),
                *("--bind-address", "127.0.0.1", "--secure-port", str(manager_port)),
                *("--cert-dir", folder / "certificates"),
                *("--service-account-private-key-file", files.signing_key, "--root-ca-file", files.authority),
                *("--use-service-account-credentials=false", "--concurrent-gc-syncs", "20"),
                *("--kube-api-qps", "500", "--kube-api-burst", "1000"),
            ],
            name="kube-controller-manager",
        )
        # Its own certificate is self-signed, so it is asked for by what it does: the default service account.
        _wait_for_default_account(url, files.authority, admin_token)
    return ControlPlane(folder=folder, url=url, kubeconfig=kubeconfig, etcd_url=etcd_url, controllers=controllers)


def _wait_for_default_account(url: str, authority: Path, token: str) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    request = urllib.request.Request(
        f"{url}/api/v1/namespaces/default/serviceaccounts/default", headers={"Authorization": f"Bearer {token}"}
    )
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5, context=context):
                return
        except urllib.error.HTTPError as error:
            error.close()
        if time.monotonic() > deadline:
            raise NotReady("kube-controller-manager made no default service account")
        time.sleep(0.2)


def _kubeconfig(url: str, authority: Path, token: str) -> str:
    # JSON is YAML too, and every Kubernetes client reads it.
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": {"server": url, "certificate-authority": str(authority)}}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
            "current-context": "tests",
        },
        indent=2,
    )


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a control plane in the foreground."""
    parser = argparse.ArgumentParser(description="Run etcd and kube-apiserver until SIGTERM or Ctrl-C.")
    parser.add_argument(
        "--dir", type=Path, required=True, help="a new folder for data, logs and kubeconfig; removed at the end"
    )
    parser.add_argument("--controllers", action="store_true", help="run kube-controller-manager too")
    parser.add_argument("--port", type=int, default=0, help="of kube-apiserver; default: a free one")
    options = parser.parse_args(argv)
    if options.dir.exists() and any(options.dir.iterdir()):
        print(f"{options.dir} is not empty: name a new folder, it is removed at the end", file=sys.stderr)
        return 2
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with running(folder=options.dir, controllers=options.controllers, port=options.port) as plane:
            print(f"ready {plane.url} KUBECONFIG={plane.kubeconfig}", flush=True)
            # Not stopped.wait() alone: a signal handler only runs when the main thread wakes up.
            while not stopped.wait(1.0):
                pass
    except (build.Missing, NotReady) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
