"""What goes wrong at start or for want of space is a sentence with a hint, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engine_process
from tests.contract import builders, wire

from localpv.testing.waiting import PATIENCE_SECONDS

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def refused(*arguments: str) -> str:
    """Start the engine where it cannot; what it says on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "localpv", "apiserver", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert re.fullmatch(r"localpv: .+\nhint: .+\n", done.stderr), done.stderr
    return done.stderr


def test_second_process_on_one_folder_names_the_first(tmp_path: Path) -> None:
    with engine_process.running(data=tmp_path) as engine:
        said = refused("--data", str(tmp_path), "--listen", "127.0.0.1:0")
        assert f"process {engine.process.pid}" in said


def test_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused("--data", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in said
    assert "--listen" in said
    with engine_process.running(data=tmp_path):
        pass  # and the folder was let go


@pytest.mark.parametrize("listen", ["7443", "127.0.0.1:", "127.0.0.1:many", "127.0.0.1:70000", ":7443"])
def test_listen_address_must_be_host_and_port(tmp_path: Path, listen: str) -> None:
    assert "--listen" in refused("--data", str(tmp_path), "--listen", listen)


def test_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    assert "192.0.2.1" in refused("--data", str(tmp_path), "--listen", "192.0.2.1:7443")


def test_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "--data" in refused("--data", str(tmp_path / "file" / "data"), "--listen", "127.0.0.1:0")


def test_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    # Permissions do not stop root, a read-only file system does.
    with mounted(tmp_path / "data", "ro") as folder:
        said = refused("--data", str(folder), "--listen", "127.0.0.1:0")
    assert "writable" in said
    assert "--data" in said


def test_damaged_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    with engine_process.running(data=tmp_path):
        pass
    database = tmp_path / "localpv.db"
    content = bytearray(database.read_bytes())
    content[4096 * 2 : 4096 * 4] = os.urandom(8192)
    database.write_bytes(content)
    said = refused("--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert "damaged" in said
    assert "backup" in said
    assert database.read_bytes() == bytes(content)


def test_secrets_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    with engine_process.running(data=tmp_path / "data") as engine:
        for path in [
            engine.kubeconfig,
            *(tmp_path / "data" / "auth").iterdir(),
            *(tmp_path / "data").glob("tls/*.key"),
        ]:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "localpv-test", str(folder)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "size=4m") as folder:
        yield folder


def test_full_disk_refuses_writes_with_a_sentence_and_keeps_what_was_acknowledged(small_disk: Path) -> None:
    data = small_disk / "data"
    acknowledged = []
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (1 << 20))
    with engine_process.running(data=data) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        for number in range(200):
            answer = client.send("POST", CONFIG_MAPS, builders.config_map(f"c{number}", data={"a": "x" * 50_000}))
            if answer.code != 201:
                break
            acknowledged.append(f"c{number}")
        assert answer.code == 503
        assert "no room left" in answer.body["message"]
        assert "free some space" in answer.body["message"]
        assert client.get(f"{CONFIG_MAPS}/c0")["data"], "reading goes on"
        client.close()
        assert "Traceback" not in engine.log_tail()
    ballast.unlink()
    with engine_process.running(data=data) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        found = {item["metadata"]["name"] for item in client.get(CONFIG_MAPS)["items"]}
        assert set(acknowledged) <= found
        client.close()


def test_writes_go_on_once_there_is_room_again(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (2 << 20))
    with engine_process.running(data=small_disk / "data") as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        number = 0
        while client.send("POST", CONFIG_MAPS, builders.config_map(f"c{number}", data={"a": "x" * 50_000})).code == 201:
            number += 1
            assert number < 200
        ballast.unlink()
        client.post(CONFIG_MAPS, builders.config_map("after"))
        assert client.get(f"{CONFIG_MAPS}/after")
        client.close()
