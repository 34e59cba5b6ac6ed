"""/etc/resolv.conf of a pod: spec.dnsPolicy and spec.dnsConfig over what the machine has."""

from __future__ import annotations

from localpv.api import kinds


def text(pod: kinds.Pod, machine: str) -> str:
    """The file, given the machine's own. There is no DNS of a cluster, so every policy but None means the machine's."""
    config = pod.spec.dns_config
    if config is None and pod.spec.dns_policy != "None":
        return machine
    servers, searches, options = _read("" if pod.spec.dns_policy == "None" else machine)
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


def _read(file: str) -> tuple[list[str], list[str], dict[str, str | None]]:
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
