"""The tool behind `make steady`: what a run printed is read rightly, and its load ends with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract import wire

import steady

PRINTED = """\
tests/placing/test_bind.py ..F.
=========================== short test summary info ============================
FAILED tests/placing/test_bind.py::test_a[1 - 2] - AssertionError: not within 30 s: x - y
FAILED tests/placing/test_bind.py::test_b
ERROR tests/placing/test_bind.py::test_b
SKIPPED [1] tests/placing/test_bind.py:12: no controller manager
============= 2 failed, 1 passed, 1 skipped, 1 error in 12.03s (0:00:12) =======
second part
======================== 40 passed, 2 warnings in 3.00s ========================
"""


def run(code: int, printed: str, number: int = 1) -> steady.Run:
    return steady.Run(number, code, printed, 12.4)


def test_a_run_names_each_test_that_failed_once_and_counts_all_parts() -> None:
    done = run(1, PRINTED)
    assert done.failures == ["tests/placing/test_bind.py::test_a[1 - 2]", "tests/placing/test_bind.py::test_b"]
    assert str(done) == "run 1: FAILED with 1 in 12 s (41 passed, 2 failed, 1 errors, 1 skipped)"


def test_a_run_that_broke_off_has_failed_although_it_names_no_test() -> None:
    assert run(-9, "tests/placing ...").failures == [steady.NO_TEST_NAMED]
    assert run(0, "= 3 passed in 0.10s =").failures == []


def test_what_fails_most_often_comes_first() -> None:
    one, both = "FAILED tests/a.py::t - E", "FAILED tests/a.py::t - E\nFAILED tests/a.py::s - E"
    assert steady.tally([run(1, one), run(1, both), run(0, "")]) == [(2, "tests/a.py::t"), (1, "tests/a.py::s")]


def test_a_suite_is_a_target_a_ring_or_what_pytest_takes() -> None:
    assert steady.command(["vm"])[-1] == "test-vm"
    assert "tests/pods" in steady.command(["share"])
    assert steady.command(["tests/unit", "-k", "steady"])[1:] == ["-m", "pytest", "tests/unit", "-k", "steady"]
    for wrong in ([], ["nothing-of-that-name"]):
        with pytest.raises(steady.UnknownSuite, match="kubernetes-placing"):
            steady.command(wrong)


def test_every_target_that_is_a_suite_is_in_the_makefile() -> None:
    makefile = (steady.ROOT / "Makefile").read_text()
    assert [target for target in steady.TARGETS.values() if f"\n{target}:" not in makefile] == []


def test_failed_runs_are_kept_and_tell_how_often(tmp_path: Path) -> None:
    second_fails = f"""
        cd {tmp_path}; echo >> seen
        [ $(wc -l < seen) != 2 ] || {{ echo "FAILED tests/a.py::t - E"; exit 3; }}
    """
    with tool(tmp_path, second_fails, runs=3, busy=0) as process:
        said = process.communicate()[0].splitlines()
    assert process.returncode == 1
    ends = [line.split(" in ")[0] for line in said if line.startswith("run ")]
    assert ends == ["run 1: passed", "run 2: FAILED with 3", "run 3: passed"]
    assert said[-2:] == ["1 of 3: tests/a.py::t", f"2 of 3 runs passed; the others are in {tmp_path / 'kept'}"]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["run-2.txt"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_load_and_tests_end_with_the_tool_however_that_ends(tmp_path: Path, how: signal.Signals) -> None:
    """The load writes to where the tool does: when that is at its end, all of them are gone."""
    waits = f"touch {tmp_path / 'here'}; while kill -0 $PPID; do sleep 0.05; done"
    with tool(tmp_path, waits, runs=10, busy=2) as process:
        wire.eventually((tmp_path / "here").exists, "the suite runs")
        process.send_signal(how)
        said, _ = process.communicate()
    assert process.returncode == (-how if how is signal.SIGKILL else steady.INTERRUPTED)
    assert ("0 of 0 runs passed" in said) is (how is not signal.SIGKILL)


def tool(folder: Path, suite: str, *, runs: int, busy: int) -> subprocess.Popen[str]:
    """The tool as a process, with a shell script for a suite."""
    asked = {"words": ["sh", "-c", suite], "runs": runs, "busy": busy}
    program = (
        "import sys, pathlib, steady\n"
        f"sys.exit(steady.steadily(**{asked!r}, kept=pathlib.Path({str(folder / 'kept')!r})))"
    )
    tools = str(Path(steady.__file__).parent)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tools)
