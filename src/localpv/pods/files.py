"""Files that every container of a pod sees in /etc."""

from __future__ import annotations

from pathlib import Path

from localpv.api import kinds
from localpv.pods.bundle import Binding

RESOLV = Path("/etc/resolv.conf")
_HOSTS = """\
# Written for this pod by localpv.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
ff02::1	ip6-allnodes
ff02::2	ip6-allrouters
"""
_MOST_HOST_NAME = 63


def host_name(pod: kinds.Pod, *, node: str) -> str:
    """What a pod calls itself."""
    if pod.spec.host_network:
        return node
    return (pod.spec.hostname or pod.metadata.name)[:_MOST_HOST_NAME].rstrip("-.")


def write(pod: kinds.Pod, folder: Path, *, node: str) -> list[Binding]:
    """Write them where they are missing; a container may have changed its own, which stays."""
    folder.mkdir(parents=True, exist_ok=True)
    name = host_name(pod, node=node)
    # The pod's own name leads to its own loopback: it has no other address.
    lines = {"hosts": f"{_HOSTS}127.0.1.1	{name}\n", "hostname": f"{name}\n", "resolv.conf": _read(RESOLV)}
    if pod.spec.host_network:
        lines["hosts"] = _read(Path("/etc/hosts"))
    for file, text in lines.items():
        if not (folder / file).exists():
            new = folder / f".{file}"
            new.write_text(text)
            new.rename(folder / file)
    return [Binding(source=folder / file, target=f"/etc/{file}") for file in lines]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
