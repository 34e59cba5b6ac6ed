"""Files that every container of a pod sees in /etc."""

from __future__ import annotations

from pathlib import Path

from localpv.api import kinds
from localpv.engine.kubelet import dns
from localpv.engine.kubelet.bundle import Binding

CLUSTER_DOMAIN = "cluster.local"
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
LONGEST_IN_KERNEL = 64


def host_name(pod: kinds.Pod, *, node: str) -> str:
    """What a pod calls itself."""
    if pod.spec.hostname_override:
        return pod.spec.hostname_override
    if pod.spec.host_network:
        return node
    full = full_name(pod)
    return full if pod.spec.set_hostname_as_fqdn and full else _short_name(pod)


def full_name(pod: kinds.Pod) -> str:
    """The name with the domain that spec.subdomain gives it; empty without one."""
    if not pod.spec.subdomain or pod.spec.hostname_override or pod.spec.host_network:
        return ""
    return f"{_short_name(pod)}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"


def _short_name(pod: kinds.Pod) -> str:
    return (pod.spec.hostname or pod.metadata.name)[:_MOST_HOST_NAME].rstrip("-.")


def write(pod: kinds.Pod, folder: Path, *, node: str) -> list[Binding]:
    """Write them where they are missing; a container may have changed its own, which stays."""
    folder.mkdir(parents=True, exist_ok=True)
    name = host_name(pod, node=node)
    # The pod's own name leads to its own loopback: it has no other address.
    own = "\t".join(one for one in (full_name(pod), pod.spec.hostname_override or _short_name(pod)) if one)
    hosts = _read(Path("/etc/hosts")) if pod.spec.host_network else f"{_HOSTS}127.0.1.1\t{own}\n"
    hosts += "".join("\t".join((alias.ip, *alias.hostnames)) + "\n" for alias in pod.spec.host_aliases)
    lines = {"hosts": hosts, "hostname": f"{name}\n", "resolv.conf": dns.text(pod, _read(RESOLV))}
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
