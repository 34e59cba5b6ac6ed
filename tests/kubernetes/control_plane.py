"""A real Kubernetes control plane on this machine: etcd, kube-apiserver and, when asked for, the controllers.

`python -m tests.kubernetes.control_plane --dir DIR` keeps one in the foreground until SIGTERM or Ctrl-C;
`DIR/kubeconfig` is complete when the line "ready ..." is printed. With `--run COMMAND...` it lives as long as the
command, which finds its kubeconfig in the environment. No kubelet runs with it: see cluster.py for that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes import build, certificates, ledger
from tests.kubernetes.programs import READY_SECONDS, NotReady, Programs, free_ports, write_private

KUBECONFIG_VARIABLE = "LOCALPV_CONTRACT_KUBECONFIG"
"""Where the tests look for a server when none is named on the command line."""


WORKLOADS = ("cronjob", "daemonset", "deployment", "job", "replicaset", "replicationcontroller", "statefulset")
"""The controllers that make pods. The contract is about the API server: a test that reads an object, changes it and
writes it back must not race with them."""


SILENCE = ("node-lifecycle", "taint-eviction")
"""The controllers that take a node without a kubelet for dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A running control plane."""

    folder: Path
    url: str
    kubeconfig: Path
    authority: certificates.Authority
    etcd_url: str
    """Tests compact the history through it; nothing else should talk to it."""

    def kubeconfig_for(self, name: str, *, user: str, group: str | None = None) -> Path:
        """A kubeconfig for one user, who enters with a certificate."""
        pair = self.authority.issue(name, user=user, group=group)
        entry = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        path = self.folder / f"{name}.kubeconfig"
        write_private(path, _kubeconfig(self.url, self.authority.file, user, entry))
        return path


@contextlib.contextmanager
def running(
    *,
    folder: Path | None = None,
    controllers: bool = False,
    workloads: bool = False,
    scheduler: bool = False,
    port: int = 0,
) -> Iterator[ControlPlane]:
    """A control plane that lives as long as the with-block; everything it wrote goes with it.

    Its controllers make pods only with `workloads`. With `scheduler` pods are placed, also on nodes without a kubelet.
    """
    place = Path(tempfile.mkdtemp(prefix="localpv-kubernetes-")) if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    programs = Programs(logs=place)
    try:
        plane = start(place, programs, port=port, service_accounts=controllers or workloads)
        if controllers or workloads:
            without = () if workloads else WORKLOADS
            start_controllers(plane, programs, without=(*without, *(SILENCE if scheduler else ())))
        if scheduler:
            start_scheduler(plane, programs)
        yield plane
    finally:
        programs.stop()
        ledger.keep_logs(place, name="control-plane")
        shutil.rmtree(place, ignore_errors=True)


def start(
    folder: Path,
    programs: Programs,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    service_range: str = "10.0.0.0/24",
    service_accounts: bool = True,
) -> ControlPlane:
    """Start etcd and kube-apiserver. Without controllers nobody makes the default service account of a namespace,
    and pods would be refused for the want of it unless the plugin is off too."""
    authority = certificates.Authority(folder / "certificates")
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    serving = authority.issue("serving", user="kube-apiserver", addresses=("127.0.0.1", address), names=names)
    to_kubelets = authority.issue("to-kubelets", user="kube-apiserver", group="system:masters")
    signing_key = folder / "certificates" / "service-accounts.key"
    certificates.write_key(signing_key)
    tokens = folder / "tokens.csv"
    admin_token = secrets.token_hex(16)
    write_private(tokens, f'{admin_token},admin,admin,"system:masters"\n')

    etcd_port, peer_port, api_port = free_ports(3)
    api_port = port or api_port
    etcd_url, url = f"http://127.0.0.1:{etcd_port}", f"https://{address}:{api_port}"
    process = programs.start(
        [
            build.program("etcd"),
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
            build.program("kube-apiserver"),
            *("--etcd-servers", etcd_url, "--storage-media-type", "application/json"),
            *("--bind-address", address, "--secure-port", str(api_port), "--cert-dir", folder / "certificates"),
            *("--tls-cert-file", serving.certificate, "--tls-private-key-file", serving.key),
            *("--client-ca-file", authority.file, "--token-auth-file", tokens),
            *("--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction"),
            *("--endpoint-reconciler-type", "none", "--service-cluster-ip-range", service_range),
            *("--service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            *("--service-account-key-file", signing_key, "--service-account-signing-key-file", signing_key),
            *("--allow-privileged=true", "--kubelet-preferred-address-types", "InternalIP"),
            *("--kubelet-certificate-authority", authority.file),
            *("--kubelet-client-certificate", to_kubelets.certificate, "--kubelet-client-key", to_kubelets.key),
            *(() if service_accounts else ("--disable-admission-plugins", "ServiceAccount")),
        ],
        name="kube-apiserver",
    )
    programs.wait_ready(process, f"{url}/readyz", authority=authority.file, name="kube-apiserver")
    kubeconfig = folder / "kubeconfig"
    # Renamed into place, since others wait for this file to appear.
    write_private(folder / "kubeconfig.new", _kubeconfig(url, authority.file, "admin", {"token": admin_token}))
    (folder / "kubeconfig.new").rename(kubeconfig)
    (folder / "etcd-url").write_text(etcd_url + "\n")
    return ControlPlane(folder=folder, url=url, kubeconfig=kubeconfig, authority=authority, etcd_url=etcd_url)


def start_controllers(
    plane: ControlPlane, programs: Programs, *, without: Sequence[str] = (), look_at_volumes_every: str = "1s"
) -> None:
    """Start kube-controller-manager with the rights that clusters give it."""
    (port,) = free_ports(1)
    name = "kube-controller-manager"
    process = programs.start(
        [
            build.program(name),
            *("--kubeconfig", plane.kubeconfig_for(name, user=f"system:{name}"), "--leader-elect=false"),
            *("--bind-address", "127.0.0.1", "--secure-port", str(port)),
            *("--cert-dir", plane.folder / "certificates", "--root-ca-file", plane.authority.file),
            *("--service-account-private-key-file", plane.folder / "certificates" / "service-accounts.key"),
            *("--use-service-account-credentials=true", "--concurrent-gc-syncs", "20"),
            *("--controllers", ",".join(["*", *(f"-{one}-controller" for one in without)])),
            # The defaults of 20 and 30, and of 15 s, make everything about volumes slow to watch.
            *("--kube-api-qps", "500", "--kube-api-burst", "1000"),
            *("--pvclaimbinder-sync-period", look_at_volumes_every),
        ],
        name=name,
    )
    # Its own certificate is self-signed, so it is asked for by what it does: the default service account.
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    programs.wait_until(lambda: get(plane, account) is not None, process, name=name, what="make a service account")


def start_scheduler(plane: ControlPlane, programs: Programs) -> None:
    """Start kube-scheduler; it is ready when the first pod is scheduled."""
    (port,) = free_ports(1)
    name = "kube-scheduler"
    config = plane.kubeconfig_for(name, user=f"system:{name}")
    programs.start(
        [
            build.program(name),
            *("--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig", config),
            *("--bind-address", "127.0.0.1", "--secure-port", str(port), "--leader-elect=false"),
            *("--cert-dir", plane.folder / "certificates"),
            *("--kube-api-qps", "500", "--kube-api-burst", "1000"),
        ],
        name=name,
    )


def get(plane: ControlPlane, path: str) -> dict[str, object] | None:
    """One object, as an administrator sees it; None when it is not there."""
    config = json.loads(plane.kubeconfig.read_text())
    request = urllib.request.Request(
        plane.url + path, headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    )
    context = ssl.create_default_context(cafile=str(plane.authority.file))
    try:
        with urllib.request.urlopen(request, timeout=READY_SECONDS, context=context) as answer:
            found: dict[str, object] = json.loads(answer.read())
            return found
    except urllib.error.HTTPError as error:
        error.close()
        return None


def _kubeconfig(url: str, authority: Path, user: str, credentials: dict[str, str]) -> str:
    # JSON is YAML too, and every Kubernetes client reads it.
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": {"server": url, "certificate-authority": str(authority)}}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user}}],
            "current-context": "tests",
        },
        indent=2,
    )


def until_told_to_stop(command: Sequence[str], kubeconfig: Path) -> int:
    """Run the command to its end; without one, wait for SIGTERM or Ctrl-C."""
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.append(number))
    if not command:
        # Signals that come between the look and the sleep wake it at the next second.
        while not told:
            time.sleep(1.0)
        return 0
    environment = os.environ | {"KUBECONFIG": str(kubeconfig), KUBECONFIG_VARIABLE: str(kubeconfig)}
    process = subprocess.Popen(list(command), env=environment)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.5)
        # Ctrl-C in a terminal has reached the command too, which may have its own things to put in order.
        if told and told[-1] == signal.SIGTERM:
            process.terminate()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a control plane in the foreground."""
    parser = argparse.ArgumentParser(description="Run etcd and kube-apiserver until SIGTERM or Ctrl-C.")
    parser.add_argument("--dir", type=Path, help="a new folder for data, logs and kubeconfig; removed at the end")
    parser.add_argument("--controllers", action="store_true", help="run the garbage collector and others too")
    parser.add_argument("--workloads", action="store_true", help="with controllers, also those that make pods")
    parser.add_argument("--scheduler", action="store_true", help="run kube-scheduler too")
    parser.add_argument("--port", type=int, default=0, help="of kube-apiserver; default: a free one")
    parser.add_argument("--run", nargs=argparse.REMAINDER, default=[], help="a command to live as long as")
    options = parser.parse_args(argv)
    if options.dir is not None and options.dir.exists() and any(options.dir.iterdir()):
        print(f"{options.dir} is not empty: name a new folder, it is removed at the end", file=sys.stderr)
        return 2
    # SIGTERM while the programs come up must take them down again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running(
            folder=options.dir,
            controllers=options.controllers,
            workloads=options.workloads,
            scheduler=options.scheduler,
            port=options.port,
        ) as plane:
            print(f"ready {plane.url} KUBECONFIG={plane.kubeconfig}", flush=True)
            code = until_told_to_stop(options.run, plane.kubeconfig)
        if options.run and code != 0:
            print(f"the logs of kube-apiserver and the others are in {ledger.newest_logs()}", file=sys.stderr)
        return code
    except build.Missing as error:
        # Tests that cannot run here count as skipped, except in CI, where everything should be there.
        skipped = options.run and not os.environ.get("CI")
        print(f"skipped: {error}" if skipped else error, file=sys.stderr)
        return 0 if skipped else 1
    except NotReady as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
