"""Files of a pod in /etc: its names, aliases and DNS, as its spec asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.kubelet.builders import pod

from localpv.engine.kubelet import etc_files

MACHINE = "# ours\nnameserver 192.0.2.1\nsearch example.org\noptions ndots:2 rotate\n"


def hosts(tmp_path: Path, **spec: Any) -> list[str]:
    etc_files.write(pod(**spec), tmp_path, node="n1")
    return (tmp_path / "hosts").read_text().splitlines()


def test_aliases_are_added_to_the_hosts_file(tmp_path: Path) -> None:
    aliases = [{"ip": "192.0.2.7", "hostnames": ["db", "db.local"]}]
    assert hosts(tmp_path, hostAliases=aliases)[-1] == "192.0.2.7\tdb\tdb.local"
    (tmp_path / "outside").mkdir()
    assert hosts(tmp_path / "outside", hostAliases=aliases, hostNetwork=True)[-1] == "192.0.2.7\tdb\tdb.local"


def test_subdomain_gives_a_full_name_and_the_pod_may_be_called_by_it(tmp_path: Path) -> None:
    full = "web.sub.default.svc.cluster.local"
    assert hosts(tmp_path, hostname="web", subdomain="sub")[-1] == f"127.0.1.1\t{full}\tweb"
    assert etc_files.host_name(pod(hostname="web", subdomain="sub"), node="n1") == "web"
    assert etc_files.host_name(pod(hostname="web", subdomain="sub", setHostnameAsFQDN=True), node="n1") == full
    assert etc_files.host_name(pod(hostname="web", setHostnameAsFQDN=True), node="n1") == "web"
    assert etc_files.host_name(pod(hostname="web", hostnameOverride="other.example"), node="n1") == "other.example"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, MACHINE),
        ({"dnsPolicy": "ClusterFirst"}, MACHINE),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.9"]}}, "nameserver 192.0.2.9\n"),
        (
            {"dnsConfig": {"searches": ["more.org"], "options": [{"name": "ndots", "value": "5"}, {"name": "edns0"}]}},
            "nameserver 192.0.2.1\nsearch example.org more.org\noptions ndots:5 rotate edns0\n",
        ),
    ],
)
def test_dns_is_the_machines_with_what_the_pod_adds(spec: dict[str, Any], text: str) -> None:
    assert etc_files.resolv_conf(pod(**spec), MACHINE) == text
