from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from localpv.engine.apiserver import certificates
from localpv.engine.apiserver.certificates import Paths
from localpv.errors import StartError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = certificates.names("127.0.0.1", "node1")


def contents(paths: Paths) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in paths.folder.iterdir()}


def handshake(paths: Paths, host: str) -> str:
    """Connect as a client that trusts only the authority; the version of TLS that was agreed on."""
    server = certificates.ssl_context(paths)
    client = ssl.create_default_context(cafile=str(paths.ca))
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(ours, server_side=True) as wrapped:
                wrapped.recv(1)
        except (ssl.SSLError, OSError):
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=host) as connection:
            return connection.version() or ""
    finally:
        theirs.close()
        thread.join()


def test_the_first_start_makes_all_files_for_the_owner_alone(tmp_path: Path) -> None:
    paths = certificates.ensure(tmp_path / "tls", NAMES)
    assert sorted(contents(paths)) == ["ca.crt", "ca.key", "server.crt", "server.json", "server.key"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in paths.folder.iterdir())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "node1", "kubernetes.default.svc"])
def test_clients_that_trust_the_authority_connect_under_every_name(tmp_path: Path, host: str) -> None:
    assert handshake(certificates.ensure(tmp_path, NAMES), host) == "TLSv1.3"


def test_clients_refuse_a_name_that_is_not_in_the_certificate(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(certificates.ensure(tmp_path, NAMES), "elsewhere")


def test_the_next_start_changes_nothing(tmp_path: Path) -> None:
    before = contents(certificates.ensure(tmp_path, NAMES, now=NOW))
    assert contents(certificates.ensure(tmp_path, NAMES[:3], now=NOW + timedelta(days=3000))) == before


@pytest.mark.parametrize(
    ("wanted", "later"), [(NAMES, timedelta(days=3300)), ([*NAMES, "192.0.2.7"], timedelta())], ids=["old", "moved"]
)
def test_a_new_certificate_keeps_the_authority_and_the_keys(
    tmp_path: Path, wanted: list[str], later: timedelta
) -> None:
    before = contents(certificates.ensure(tmp_path, NAMES, now=NOW))
    paths = certificates.ensure(tmp_path, wanted, now=NOW + later)
    after = contents(paths)
    assert after["server.crt"] != before["server.crt"]
    assert {name: after[name] for name in ("ca.crt", "ca.key", "server.key")} == {
        name: before[name] for name in ("ca.crt", "ca.key", "server.key")
    }
    assert handshake(paths, wanted[-1])


@pytest.mark.parametrize("lost", ["ca.crt", "server.crt", "server.json", "server.key"])
def test_a_start_that_died_half_way_is_completed(tmp_path: Path, lost: str) -> None:
    paths = certificates.ensure(tmp_path, NAMES)
    before = contents(paths)
    (tmp_path / lost).unlink()
    certificates.ensure(tmp_path, NAMES)
    assert handshake(paths, "node1")
    assert contents(paths)["ca.key"] == before["ca.key"]
    if lost == "server.json":
        assert contents(paths) == before


def test_a_certificate_of_a_lost_authority_is_replaced(tmp_path: Path) -> None:
    paths = certificates.ensure(tmp_path, NAMES)
    paths.ca_key.unlink()
    certificates.ensure(tmp_path, NAMES)
    assert handshake(paths, "localhost")


@pytest.mark.parametrize("damaged", ["ca.key", "server.key", "ca.crt"])
def test_a_damaged_file_stops_the_start_with_a_hint(tmp_path: Path, damaged: str) -> None:
    paths = certificates.ensure(tmp_path, NAMES)
    paths.note.unlink()
    (tmp_path / damaged).write_bytes(b"not a PEM file")
    with pytest.raises(StartError, match=damaged) as refused:
        certificates.ensure(tmp_path, NAMES)
    assert "remove" in refused.value.hint


def test_a_certificate_that_does_not_fit_its_key_stops_the_start_with_a_hint(tmp_path: Path) -> None:
    paths = certificates.ensure(tmp_path / "a", NAMES)
    other = certificates.ensure(tmp_path / "b", NAMES)
    paths.key.write_bytes(other.key.read_bytes())
    with pytest.raises(StartError) as refused:
        certificates.ssl_context(paths)
    assert "remove" in refused.value.hint


def test_a_folder_that_cannot_be_written_stops_the_start_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("a file, not a folder")
    with pytest.raises(StartError) as refused:
        certificates.ensure(tmp_path / "tls", NAMES)
    assert refused.value.hint


def test_certificates_are_made_with_threads_around_too(tmp_path: Path) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert handshake(certificates.ensure(tmp_path, NAMES), "localhost")
    finally:
        done.set()
        thread.join()


def test_a_clock_that_is_far_behind_does_not_spoil_the_certificate(tmp_path: Path) -> None:
    paths = certificates.ensure(tmp_path, NAMES, now=datetime(1970, 1, 2, tzinfo=UTC))
    assert handshake(paths, "localhost")


def test_names_follow_the_listen_address() -> None:
    assert "192.0.2.9" in certificates.names("192.0.2.9", "node1")
    assert "::1" in certificates.names("[::1]", "Node1")
    assert "node1" in certificates.names("::1", "Node1")
    assert "0.0.0.0" not in certificates.names("0.0.0.0", "node1")
    assert socket.gethostname().lower() in certificates.names("0.0.0.0", "node1")


def test_the_kubeconfig_is_one_that_clients_read(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    certificates.write_kubeconfig(path, "https://127.0.0.1:7443", b"PEM", "secret")
    assert path.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:7443",
        "certificate-authority-data": "UEVN",
    }
    assert config["users"][0]["user"] == {"token": "secret"}
    assert config["current-context"] == config["contexts"][0]["name"]


def test_the_python_client_reads_the_kubeconfig(tmp_path: Path) -> None:
    from kubernetes.config import new_client_from_config  # type: ignore[import-untyped]

    paths = certificates.ensure(tmp_path / "tls", NAMES)
    path = tmp_path / "kubeconfig"
    certificates.write_kubeconfig(path, "https://127.0.0.1:7443", paths.ca.read_bytes(), "secret")
    client = new_client_from_config(str(path))
    assert client.configuration.host == "https://127.0.0.1:7443"
    assert "secret" in next(iter(client.configuration.api_key.values()))


def test_no_child_process_is_left_behind(tmp_path: Path) -> None:
    before = _children()
    certificates.ensure(tmp_path, NAMES)
    assert _children() <= before


def _children() -> set[str]:
    """Of this process; the engine that other tests share is one of them."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}
