"""Credentials from a program."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from localpv import errors
from localpv.client.exec_plugin import FromPlugin, Plugin
from localpv.testing.clock import FakeClock
from localpv.testing.waiting import eventually

V1 = "client.authentication.k8s.io/v1"

# Counts its runs in a file and gives the count as the token.
COUNTING = """
import json, os, sys
path, expires = sys.argv[1:]
count = len(open(path).read()) + 1 if os.path.exists(path) else 1
open(path, "a").write("x")
status = {"token": f"token-{count}"}
if expires: status["expirationTimestamp"] = expires
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["kind"] == "ExecCredential" and info["spec"]["interactive"] is False
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def a_plugin(script: str, *arguments: str) -> Plugin:
    return Plugin(command=sys.executable, arguments=("-c", script, *arguments), where="kubeconfig: user u")


async def test_many_requests_share_one_run(tmp_path: Path) -> None:
    credentials = FromPlugin(a_plugin(COUNTING, str(tmp_path / "runs"), ""), tls=None, clock=FakeClock())
    every = await asyncio.gather(*(credentials.headers() for _ in range(5)))
    assert set(every) == {(("Authorization", "Bearer token-1"),)}


async def test_credentials_are_renewed_before_they_run_out_and_after_a_refusal(tmp_path: Path) -> None:
    clock = FakeClock()
    expires = (clock.now() + timedelta(minutes=10)).isoformat()
    credentials = FromPlugin(a_plugin(COUNTING, str(tmp_path / "runs"), expires), tls=None, clock=clock)
    assert await credentials.headers() == (("Authorization", "Bearer token-1"),)
    await clock.advance(500)
    assert await credentials.headers() == (("Authorization", "Bearer token-1"),)
    await clock.advance(80)
    assert await credentials.headers() == (("Authorization", "Bearer token-2"),)
    assert credentials.refused()
    assert await credentials.headers() == (("Authorization", "Bearer token-3"),)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit('log in first')", "exit code 1: log in first"),
        ("print('hello')", "gave no ExecCredential"),
        (f"print('''{json.dumps({'apiVersion': V1, 'kind': 'ExecCredential', 'status': {}})}''')", "neither a token"),
        (f"print('''{json.dumps({'apiVersion': V1, 'kind': 'Other'})}''')", "gave Other of"),
        (
            f"print('''{json.dumps({'apiVersion': 'v2', 'kind': 'ExecCredential', 'status': {'token': 'a'}})}''')",
            "ExecCredential of v2",
        ),
    ],
)
async def test_plugin_that_fails_is_named(script: str, message: str) -> None:
    credentials = FromPlugin(a_plugin(script), tls=None, clock=FakeClock())
    with pytest.raises(errors.ConfigurationError, match="kubeconfig: user u") as caught:
        await credentials.headers()
    assert message in caught.value.message


async def test_plugin_that_is_not_there_gives_its_install_hint() -> None:
    plugin = Plugin(command="/does/not/exist", install_hint="install it", where="k")
    with pytest.raises(errors.ConfigurationError, match="cannot be started") as caught:
        await FromPlugin(plugin, tls=None, clock=FakeClock()).headers()
    assert caught.value.hint == "install it"


async def test_cancelled_caller_ends_the_program(tmp_path: Path) -> None:
    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    pid = tmp_path / "pid"
    asking = asyncio.create_task(FromPlugin(a_plugin(script, str(pid)), tls=None, clock=FakeClock()).headers())
    await eventually(lambda: pid.exists() and pid.read_text())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not Path(f"/proc/{pid.read_text()}").exists()
