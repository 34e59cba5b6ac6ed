"""The programs are watched: what holds their event loop is in the log and in the metrics, and fails the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import engine_process, held_loops
from tests.contract import wire

from localpv.runtime.watchdog import Held

HOLD = """
import asyncio, logging, sys, time
from localpv.engine.apiserver.server import Settings
from localpv.programs import serving
from localpv.programs.observing import Observed

def hold_it():
    until = time.thread_time() + 2.0
    while time.thread_time() < until:
        pass

async def main():
    observed = Observed("localpv")
    async with serving.engine(Settings(data=__import__("pathlib").Path(sys.argv[2]), port=0), observed):
        hold_it()
        while not observed.watchdog.times:
            await asyncio.sleep(0.01)

logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
asyncio.run(main())
"""


@pytest.mark.holds_the_loop
def test_a_server_that_is_held_says_by_what_and_fails_the_test(tmp_path: Path) -> None:
    loops = held_loops.Loops()
    with (tmp_path / "log").open("wb") as log:
        loops.follow(tmp_path / "log")
        subprocess.run([sys.executable, "-c", HOLD, "localpv", str(tmp_path / "data")], stderr=log, check=True)
    loops.read_logs()
    assert any("hold_it" in report for report in loops.held), (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("file", "counts"),
    [(f"{held_loops.OURS}engine/store/store.py", True), (__file__, False), ("asyncio/events.py", False)],
)
def test_a_loop_in_this_process_counts_as_held_when_our_own_code_holds_it(file: str, counts: bool) -> None:
    loops = held_loops.Loops()
    stack = f'  File "asyncio/base_events.py", line 1, in run_forever\n  File "{file}", line 2, in work\n'
    loops.hear(Held(seconds=1.0, cpu_seconds=0.6, stack=stack))
    loops.hear(Held(seconds=2.0, cpu_seconds=1.4, stack=""))
    assert [stack in report for report in loops.held] == [True] * counts


def test_the_metrics_tell_how_often_the_loop_was_held() -> None:
    with engine_process.running() as engine:
        target = wire.read_kubeconfig(engine.kubeconfig)
        client = wire.Api(target, target.token)

        def told_as_logged() -> bool:
            # A busy machine may hold it too, and does so least between two looks.
            text = client.send("GET", "/metrics").raw.decode()
            times = engine.log_tail(1_000_000).count("the event loop goes on")
            return f"localpv_event_loop_held_total {times}" in text.splitlines()

        wire.eventually(told_as_logged, "the metrics say what the log says")
        client.close()
