"""Builds the programs of the Kubernetes release that the tests run against, once per version."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

MODULE = Path(__file__).parent / "build"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "informer": "./informer",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "e2e": "./e2e",
    "ginkgo": "github.com/onsi/ginkgo/v2/ginkgo",
    "agnhost": "k8s.io/kubernetes/test/images/agnhost",
    "nnp": "./nnp",
    "csi-sanity": "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity",
    "csi-peer": "./peer",
}
"""The programs that can be built. Distributions still ship an etcd 3.4 without the progress requests that
kube-apiserver needs for watches with initial events, so etcd is among them."""

CONFORMANCE = ("e2e", "ginkgo", "agnhost", "nnp")
"""Kubernetes' own tests, what runs them, and programs inside of their pods; built when they are named."""

MODULES = {"helm": MODULE / "helm", "csi-sanity": MODULE / "csi", "csi-peer": MODULE / "csi"}
"""Programs with a go.mod of their own: they are made of other versions of what Kubernetes is made of."""

TIMEOUT_SECONDS = 1800
"""A first build of kube-apiserver on two cores takes several minutes."""


class Missing(Exception):
    """A program is neither in the cache nor can it be built here; the message says what is missing."""


def version() -> str:
    """The Kubernetes version that go.mod names, for example v1.35.8."""
    return _required(MODULE, "k8s.io/kubernetes")


def helm_version() -> str:
    """The version of Helm that its go.mod names."""
    return _required(MODULES["helm"], "helm.sh/helm/v3")


def sanity_version() -> str:
    """The version of csi-sanity that its go.mod names."""
    return _required(MODULES["csi-sanity"], "github.com/kubernetes-csi/csi-test/v5")


def _required(folder: Path, module: str) -> str:
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)$", (folder / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, f"go.mod names no {module}"
    return found[1]


def cache() -> Path:
    """Where built programs are kept, by version."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "localpv" / "kubernetes" / version()


def place(name: str) -> Path:
    """Where the named program is, or will be when it is built."""
    match name:
        case "helm":
            return cache() / f"helm-{helm_version()}"
        case "csi-sanity":
            return cache() / f"csi-sanity-{sanity_version()}"
        case "csi-peer":
            main = hashlib.sha256((MODULE / "csi" / "peer" / "main.go").read_bytes()).hexdigest()[:12]
            return cache() / f"csi-peer-{main}"
        case "e2e":
            # Made of the release and of a main of our own; ginkgo runs what is called .test.
            main = hashlib.sha256((MODULE / "e2e" / "main.go").read_bytes()).hexdigest()[:12]
            return cache() / f"e2e-{main}.test"
    return cache() / name


def program(name: str) -> Path:
    """The path of the named program, built first if it is not in the cache."""
    target = place(name)
    if not target.exists():
        _build(name, target)
    return target


def toolchain() -> str | None:
    """The Go command of this machine, if there is one."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def _build(name: str, target: Path) -> None:
    go = toolchain()
    if go is None:
        raise Missing(f"{name} {version()} is not built and there is no Go toolchain to build it with")
    target.parent.mkdir(parents=True, exist_ok=True)
    release = version()
    major, minor, *_ = release.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    flags = [
        f"-X {package}.gitVersion={release}",
        f"-X {package}.gitMajor={major}",
        f"-X {package}.gitMinor={minor}",
        "-s -w",
    ]
    # Built beside its place and renamed, so an interrupted build is never taken for a program.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / name
        command = [go, "build", "-ldflags", " ".join(flags), "-o", str(made), PACKAGES[name]]
        built = subprocess.run(
            command,
            cwd=MODULES.get(name, MODULE),
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if built.returncode != 0:
            lines = built.stderr.strip().splitlines() or [f"exit code {built.returncode}"]
            raise Missing(f"{name} {release} could not be built: {lines[-1]}")
        made.rename(target)


def main(names: Sequence[str] = ()) -> int:
    """Build what is not built yet: all that a cluster needs, or those that are named."""
    for name in names or [name for name in PACKAGES if name not in CONFORMANCE]:
        if place(name).exists():
            continue
        print(f"building {name} for {version()} (once, some minutes)", flush=True)
        try:
            program(name)
        except Missing as missing:
            # The tests say the same, and whether that matters.
            print(missing, file=sys.stderr)
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
