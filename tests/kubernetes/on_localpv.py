"""kube-scheduler and kube-controller-manager on our API server, which then has no binder and no scheduler of its own.

`python -m tests.kubernetes.on_localpv --run COMMAND...` keeps them for as long as the command, which finds its
kubeconfig in the environment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from tests import engine_process
from tests.contract import wire
from tests.kubernetes import build, certificates, control_plane, ledger
from tests.kubernetes.programs import NotReady, Programs, free_ports, write_private

from localpv.api.objects import Object
from localpv.api.roles import READ, binding, role, rule, service_account_subject

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
SYSTEM = "kube-system"

VOLUME_CONTROLLERS = {
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "ephemeral-volume-controller": "ephemeral-volume-controller",
}
"""The controllers that the circle of a volume needs, and the service account that each of them works with."""

_EVENTS = rule(("create", "patch", "update"), ("", "events.k8s.io"), "events")
_VOLUMES = ("persistentvolumes", "persistentvolumeclaims")
_STORAGE = "storage.k8s.io"
_DEVICES = "resource.k8s.io"

RIGHTS: dict[str, list[Object]] = {
    "system:kube-scheduler": [
        _EVENTS,
        rule((*READ, "delete"), "", "pods"),
        rule(("create",), "", "bindings", "pods/binding"),
        rule(("patch", "update"), "", "pods/status"),
        rule(READ, "", "namespaces", "nodes", "replicationcontrollers", "services"),
        rule((*READ, "patch", "update"), "", *_VOLUMES),
        rule(READ, "apps", "replicasets", "statefulsets"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(READ, _STORAGE, "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
        rule(READ, _DEVICES, "deviceclasses", "resourceslices"),
        rule((*READ, "patch", "update"), _DEVICES, "resourceclaims", "resourceclaims/status"),
    ],
    "system:kube-controller-manager": [
        _EVENTS,
        rule(("list", "watch"), "*", "*"),
        rule(("get", "create", "update"), "", "serviceaccounts"),
        rule(("create",), "", "serviceaccounts/token"),
        rule(("get",), "", "namespaces"),
    ],
    "system:controller:persistent-volume-binder": [
        _EVENTS,
        rule((*READ, "create", "delete", "update"), "", "persistentvolumes"),
        rule((*READ, "update"), "", "persistentvolumeclaims"),
        rule(("update",), "", "persistentvolumes/status", "persistentvolumeclaims/status"),
        rule(READ, "", "nodes", "pods"),
        rule(READ, _STORAGE, "storageclasses"),
    ],
    "system:controller:pv-protection-controller": [_EVENTS, rule((*READ, "update"), "", "persistentvolumes")],
    "system:controller:pvc-protection-controller": [
        _EVENTS,
        rule((*READ, "update"), "", "persistentvolumeclaims"),
        rule(READ, "", "pods"),
    ],
    "system:controller:ephemeral-volume-controller": [
        _EVENTS,
        rule((*READ, "create"), "", "persistentvolumeclaims"),
        rule(READ, "", "pods"),
        rule(("update",), "", "pods/finalizers"),
    ],
}
"""What Kubernetes gives these programs at its first start, as far as volumes and pods are concerned. Our server knows
nothing of them, so an administrator grants it."""


@contextlib.contextmanager
def running() -> Iterator[Path]:
    """The kubeconfig of an administrator, as long as the with-block lasts."""
    place = Path(tempfile.mkdtemp(prefix="localpv-kubernetes-"))
    programs = Programs(logs=place)
    try:
        with engine_process.running(log=place / "apiserver.log") as engine:
            try:
                _grant(engine.kubeconfig)
                _start(engine.kubeconfig, place, programs)
                yield engine.kubeconfig
            finally:
                programs.stop()
    finally:
        ledger.keep_logs(place, name="on-localpv")
        shutil.rmtree(place, ignore_errors=True)


def _grant(kubeconfig: Path) -> None:
    target = wire.read_kubeconfig(kubeconfig)
    api = wire.Api(target, target.token)
    for name, rules in RIGHTS.items():
        account = name.removeprefix("system:controller:")
        whom = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}
        subject = whom if account == name else service_account_subject(SYSTEM, account)
        api.post(ROLES, role(name, *rules))
        api.post(BINDINGS, binding(name, name, subject))
    api.close()


def _start(admin: Path, place: Path, programs: Programs) -> None:
    certificates.write_key(place / "service-accounts.key")
    shared = ("--bind-address", "127.0.0.1", "--leader-elect=false", "--cert-dir", place)
    pace = ("--kube-api-qps", "500", "--kube-api-burst", "1000")
    scheduler_port, manager_port = free_ports(2)
    programs.start(
        [
            build.program("kube-scheduler"),
            *("--kubeconfig", _as_user(admin, place, "system:kube-scheduler")),
            *("--secure-port", str(scheduler_port), *shared, *pace),
        ],
        name="kube-scheduler",
    )
    programs.start(
        [
            build.program("kube-controller-manager"),
            *("--kubeconfig", _as_user(admin, place, "system:kube-controller-manager")),
            *("--secure-port", str(manager_port), *shared, *pace),
            *("--use-service-account-credentials=true", "--controllers", ",".join(VOLUME_CONTROLLERS)),
            *("--pvclaimbinder-sync-period", "1s"),
        ],
        name="kube-controller-manager",
    )


def _as_user(admin: Path, place: Path, user: str) -> Path:
    """A kubeconfig for a user: the server takes no client certificates, so an administrator impersonates the user."""
    config = yaml.safe_load(admin.read_text())
    for entry in config["users"]:
        entry["user"]["as"] = user
    path = place / f"{user.removeprefix('system:')}.kubeconfig"
    write_private(path, json.dumps(config))
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """Run them as long as a command."""
    parser = argparse.ArgumentParser(description="Run kube-scheduler and kube-controller-manager on our API server.")
    parser.add_argument("--run", nargs=argparse.REMAINDER, default=[], help="a command to live as long as")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running() as kubeconfig:
            code = control_plane.until_told_to_stop(options.run, kubeconfig)
        if code != 0:
            print(f"the logs of kube-scheduler and the others are in {ledger.newest_logs()}", file=sys.stderr)
        return code
    except build.Missing as error:
        skipped = not os.environ.get("CI")
        print(f"skipped: {error}" if skipped else error, file=sys.stderr)
        return 0 if skipped else 1
    except (NotReady, engine_process.EngineFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
