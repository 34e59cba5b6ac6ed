"""client-go's informer, of which Kubernetes' own components are made, sees every change and survives restarts."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engine_process
from tests.contract import builders, wire
from tests.kubernetes import skipping

from localpv.testing.waiting import PATIENCE_SECONDS

VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture(scope="session")
def informer() -> Path:
    return skipping.program("informer")


class Told:
    """The lines of a running informer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def until(self, line: str) -> list[str]:
        """All lines up to this one, which must come (the test's timeout bounds the wait)."""
        assert self._process.stdout is not None
        seen = []
        for text in self._process.stdout:
            seen.append(text.strip())
            if seen[-1] == line:
                return seen
        raise AssertionError(f"the informer ended; it said {seen}")


@contextlib.contextmanager
def running(program: Path, kubeconfig: Path, *options: str) -> Iterator[Told]:
    process = subprocess.Popen(
        [program, "-kubeconfig", kubeconfig, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Told(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("options", [(), ("-protobuf",)], ids=["json", "protobuf"])
def test_informer_sees_what_is_there_and_what_changes(
    informer: Path, api: wire.Api, target: wire.Target, options: tuple[str, ...]
) -> None:
    name = builders.unique("informed")
    shown = f"{name} 1Gi /mnt/disks/one"
    body = builders.local_volume(name, capacity={"storage": "1Gi"}, local={"path": "/mnt/disks/one"})
    api.post(VOLUMES, body)
    with running(informer, target.kubeconfig, *options) as told:
        assert f"ADDED {shown}" in told.until("SYNCED")
        # Without its protection, so that it goes at once also where no controller would take that off.
        api.merge(f"{VOLUMES}/{name}", {"metadata": {"labels": {"a": "b"}, "finalizers": None}})
        told.until(f"MODIFIED {shown}")
        api.delete(f"{VOLUMES}/{name}")
        told.until(f"DELETED {shown}")


def test_informer_goes_on_after_the_engine_was_restarted(informer: Path, tmp_path: Path) -> None:
    with engine_process.running(data=tmp_path) as engine:
        address = engine.url.removeprefix("https://")
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        client.post(VOLUMES, builders.local_volume("before", local={"path": "/a"}, capacity={"storage": "1Gi"}))
        client.close()
        context = running(informer, engine.kubeconfig)
        told = context.__enter__()
        try:
            told.until("SYNCED")
            engine.process.kill()
            engine.process.wait()
            with engine_process.running(data=tmp_path, listen=address):
                client = wire.Api(target, target.token)
                client.post(VOLUMES, builders.local_volume("after", local={"path": "/b"}, capacity={"storage": "1Gi"}))
                client.close()
                seen = told.until("ADDED after 1Gi /b")
                assert not [line for line in seen if "before" in line], "it resumed where it was"
        finally:
            context.__exit__(None, None, None)
