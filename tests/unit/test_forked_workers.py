"""Tests of a project of its own are run by workers: what they report, what becomes of one that dies, when they stop."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

SETTINGS = """
import os, pathlib, pytest
pytest_plugins = ["tests.forked_workers"]

@pytest.fixture(scope="session")
def server(request):
    yield os.getpid()
    with open("closed", "a") as file:
        file.write(f"{os.getpid()}\\n")
    if pathlib.Path("breaks").exists():
        raise RuntimeError("it does not close")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\nmarkers = alone\naddopts = -p no:cacheprovider -p no:asyncio -p no:xdist\n"
    )
    (tmp_path / "conftest.py").write_text(SETTINGS)
    return tmp_path


def run(project: Path, *options: str, workers: int = 2) -> tuple[int, str]:
    argv = [sys.executable, "-m", "pytest", f"--workers={workers}", f"--basetemp={project}/made", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ended = subprocess.run(
        argv, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    return ended.returncode, ended.stdout


def test_all_tests_are_run_each_once_by_several_processes_with_folders_of_their_own(project: Path) -> None:
    for name in ("a", "b", "c"):
        (project / f"test_{name}.py").write_text(
            "import os, pytest, random\n"
            "@pytest.mark.parametrize('number', range(5))\n"
            "def test_one(number, server, tmp_path):\n"
            "    assert server == os.getpid()\n"
            "    with open('ran', 'a') as file:\n"
            "        print(os.getpid(), __name__, number, tmp_path, random.random(), file=file)\n"
        )
    code, printed = run(project, workers=3)
    assert code == 0, printed
    assert "15 passed" in printed
    lines = [line.split() for line in (project / "ran").read_text().splitlines()]
    assert len({(name, number) for _, name, number, _, _ in lines}) == len(lines) == 15
    processes = {pid for pid, *_ in lines}
    assert len(processes) == 3
    assert len({folder for *_, folder, _ in lines}) == 15
    assert len({number for *_, number in lines}) == 15, "each has numbers at random of its own"
    assert sorted((project / "closed").read_text().split()) == sorted(processes), "and closes what it has opened"


def test_what_failed_is_told_with_what_it_printed(project: Path) -> None:
    (project / "test_a.py").write_text(
        "import pytest\n"
        "def test_good(): print('of the good one')\n"
        "def test_bad():\n    print('of the bad one')\n    assert [1] == [2]\n"
        "@pytest.mark.skip(reason='no need')\ndef test_left_out(): ...\n"
    )
    code, printed = run(project)
    assert code == 1
    assert re.search(r"1 failed, 1 passed, 1 skipped", printed)
    assert "assert [1] == [2]" in printed
    assert "of the bad one" in printed
    assert "of the good one" not in printed


def test_a_test_that_ends_its_worker_has_failed_and_the_others_are_run(project: Path) -> None:
    (project / "test_a.py").write_text(
        "import os, signal\n"
        "def test_before(): ...\n"
        "def test_dies(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "def test_after(): ...\n"
        "def test_at_last(): ...\n"
    )
    code, printed = run(project)
    assert code == 1
    assert "1 failed, 3 passed" in printed
    assert "test_a.py::test_dies" in printed
    assert "the worker that ran it ended with -9" in printed


def test_that_something_shared_cannot_be_closed_is_a_failure(project: Path) -> None:
    (project / "test_a.py").write_text("def test_one(server): ...\n")
    (project / "breaks").write_text("")
    code, printed = run(project)
    assert code == 1
    assert "it does not close" in printed


def test_nothing_more_is_begun_after_the_first_failure_if_so_wanted(project: Path) -> None:
    (project / "test_a.py").write_text(
        "import pytest\n"
        "def test_bad(server): assert False\n"
        "@pytest.mark.parametrize('number', range(2000))\n"
        "def test_more(number): ...\n"
    )
    code, printed = run(project, "-x")
    assert code == 1
    assert "stopping after 1 failures" in printed
    assert int((re.search(r"(\d+) passed", printed) or [0, "0"])[1]) < 2000
    assert (project / "closed").exists(), "what is shared is closed all the same"


def test_tests_that_run_alone_come_when_the_others_are_done(project: Path) -> None:
    (project / "test_a.py").write_text(
        "import os, pathlib, pytest\n"
        "@pytest.mark.alone\n"
        "def test_alone(): assert len(pathlib.Path('closed').read_text().split()) == 1\n"
        "def test_beside(server): ...\n"
    )
    code, printed = run(project)
    assert (code, "2 passed" in printed) == (0, True), printed


def test_an_error_while_tests_are_collected_is_one_of_the_run(project: Path) -> None:
    (project / "test_a.py").write_text("def test_one(): ...\n")
    (project / "test_b.py").write_text("nonsense\n")
    code, printed = run(project)
    assert code == 2
    assert "1 error" in printed
    assert "passed" not in printed
