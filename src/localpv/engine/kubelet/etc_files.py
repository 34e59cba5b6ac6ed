"""Files that every container of a pod sees in /etc: hosts, hostname, and resolv.conf by dnsPolicy and dnsConfig."""

from __future__ import annotations

from pathlib import Path

from localpv.api.kinds.pods import Pod
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


def resolv_conf(pod: Pod, machine: str) -> str:
    """The file, given the machine's own. There is no DNS of a cluster, so every policy but None means the machine's."""
    config = pod.spec.dns_config
    if config is None and pod.spec.dns_policy != "None":
        return machine
    servers, searches, options = _read_resolv_conf("" if pod.spec.dns_policy == "None" else machine)
    if config is not None:
        servers += config.nameservers
        searches += config.searches
        options |= {one.name: one.value for one in config.options}
    lines = [f"nameserver {server}" for server in dict.fromkeys(servers)]
    if searches:
        lines.append(f"search {' '.join(dict.fromkeys(searches))}")
    if options:
        shown = (name if value is None else f"{name}:{value}" for name, value in options.items())
        lines.append(f"options {' '.join(shown)}")
    return "".join(f"{line}\n" for line in lines)


def _read_resolv_conf(file: str) -> tuple[list[str], list[str], dict[str, str | None]]:
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str | None] = {}
    for line in file.splitlines():
        match line.split():
            case ["nameserver", server, *_]:
                servers.append(server)
            case ["search" | "domain", *domains]:
                searches = domains
            case ["options", *words]:
                for word in words:
                    name, colon, value = word.partition(":")
                    options[name] = value if colon else None
    return servers, searches, options


def host_name(pod: Pod, *, node: str) -> str:
    """What a pod calls itself."""
    if pod.spec.hostname_override:
        return pod.spec.hostname_override
    if pod.spec.host_network:
        return node
    full = full_name(pod)
    return full if pod.spec.set_hostname_as_fqdn and full else _short_name(pod)


def full_name(pod: Pod) -> str:
    """The name with the domain that spec.subdomain gives it; empty without one."""
    if not pod.spec.subdomain or pod.spec.hostname_override or pod.spec.host_network:
        return ""
    return f"{_short_name(pod)}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"


def _short_name(pod: Pod) -> str:
    return (pod.spec.hostname or pod.metadata.name)[:_MOST_HOST_NAME].rstrip("-.")


def write(pod: Pod, folder: Path, *, node: str) -> list[Binding]:
    """Write them where they are missing; a container may have changed its own, which stays."""
    folder.mkdir(parents=True, exist_ok=True)
    name = host_name(pod, node=node)
    # The pod's own name leads to its own loopback: it has no other address.
    own = "\t".join(one for one in (full_name(pod), pod.spec.hostname_override or _short_name(pod)) if one)
    hosts = _read(Path("/etc/hosts")) if pod.spec.host_network else f"{_HOSTS}127.0.1.1\t{own}\n"
    hosts += "".join("\t".join((alias.ip, *alias.hostnames)) + "\n" for alias in pod.spec.host_aliases)
    lines = {"hosts": hosts, "hostname": f"{name}\n", "resolv.conf": resolv_conf(pod, _read(RESOLV))}
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
