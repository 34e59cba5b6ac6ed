"""Runs tests beside each other with `--workers COUNT`, in forks of a process that has collected them.

Workers that start from nothing load and collect all tests, each for itself, which takes ten seconds of a processor. A
fork has them at once. It runs parts of files (tests/shares.py) in a mount namespace and a folder of its own and
sends its reports here. When all are done, one more worker runs the tests that carry the mark `alone`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests import forked_programs, own_mounts, shares

ALONE = "alone"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="how many processes run tests beside each other")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    workers = session.config.getoption("--workers")
    if not workers or session.config.option.collectonly:
        return None
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors during collection")
    if (terminal := session.config.pluginmanager.get_plugin("terminalreporter")) is not None:
        terminal.showfspath = False  # files begin and end beside each other
    if any(_shared(item) for item in session.items):
        forked_programs.prepare()
    alone = {number for number, item in enumerate(session.items) if item.get_closest_marker(ALONE)}
    beside = [number for number in range(len(session.items)) if number not in alone]
    for numbers, count in ((beside, workers), (sorted(alone), 1)):
        _Run(session, numbers).run(count)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


@dataclass(slots=True)
class _Worker:
    pid: int
    number: int
    share: shares.Worker
    part: shares.Part | None = None
    left: list[int] = field(default_factory=list)
    """Tests of its part that it has not told the end of; it runs the first."""


class _Run:
    """In the process that was called: gives tests to workers and tells what they report."""

    def __init__(self, session: pytest.Session, numbers: Sequence[int]) -> None:
        self._session, self._config, self._numbers = session, session.config, numbers
        items = [session.items[number] for number in numbers]
        self._shares = shares.Shares(shares.parts((item.path, _shared(item)) for item in items))
        self._workers: dict[Connection, _Worker] = {}
        self._folder: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self, count: int) -> None:
        try:
            for number in range(count):
                if self._shares:
                    self._start(number, shares.Worker(prefers_waiting=number < count // 2))
            while self._workers and not (self._session.shouldfail or self._session.shouldstop):
                for connection in wait(list(self._workers)):
                    assert isinstance(connection, Connection)
                    self._hear(connection)
        finally:
            # Whoever is still there ends after its test, and what its tests have started with it.
            for connection in self._workers:
                connection.close()
            for worker in self._workers.values():
                os.waitpid(worker.pid, 0)

    def _start(self, number: int, share: shares.Worker) -> None:
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        assert threading.active_count() == 1, threading.enumerate()
        if pid := os.fork():
            theirs.close()
            self._workers[ours] = worker = _Worker(pid, number, share)
            self._give(ours, worker)
            return
        for connection in (ours, *self._workers):
            connection.close()
        _work(self._session, theirs, self._folder / f"worker-{number}-{os.getpid()}")

    def _give(self, connection: Connection, worker: _Worker) -> None:
        worker.part = self._shares.take(worker.share)
        worker.left = [self._numbers[one] for one in worker.part.tests] if worker.part else []
        with contextlib.suppress(BrokenPipeError):  # that it is no more is heard next
            connection.send(worker.left)

    def _hear(self, connection: Connection) -> None:
        worker = self._workers[connection]
        try:
            number, told = connection.recv()
        except (EOFError, ConnectionResetError):
            self._end(connection, worker)
            return
        if number is None:
            self._give(connection, worker)
            return
        reports = [self._config.hook.pytest_report_from_serializable(config=self._config, data=data) for data in told]
        if number in worker.left:
            worker.left.remove(number)
        self._tell(reports)

    def _tell(self, reports: Sequence[pytest.TestReport]) -> None:
        hook, first = self._config.hook, reports[0]
        hook.pytest_runtest_logstart(nodeid=first.nodeid, location=first.location)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=first.nodeid, location=first.location)

    def _end(self, connection: Connection, worker: _Worker) -> None:
        """A worker is no more. If that was not its own will, its test has failed, and another one does the rest."""
        del self._workers[connection]
        connection.close()
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0 and not worker.left:
            return
        nodeid, location = f"worker {worker.number}", ("", None, "")
        if worker.left:
            item = self._session.items[worker.left[0]]
            nodeid, location = item.nodeid, item.location
        why = f"the worker that ran it ended with {code}"
        self._tell([pytest.TestReport(nodeid, location, {}, "failed", why, "call")])
        if worker.part and len(worker.left) > 1:
            tests = worker.part.tests[-(len(worker.left) - 1) :]
            self._shares.give_back(shares.Part(tests, worker.part.seconds, worker.part.waits, worker.part.shared))
        if self._shares:
            self._start(worker.number, shares.Worker(prefers_waiting=worker.share.prefers_waiting))


def _shared(item: pytest.Item) -> frozenset[str]:
    """What is made once for all tests of a folder, by a file of settings there."""
    info = getattr(item, "_fixtureinfo", None)
    found = [definitions[-1] for definitions in info.name2fixturedefs.values()] if info else []
    return frozenset(f"{one.baseid}/{one.argname}" for one in found if one.scope == "session" and one.baseid)


def _work(session: pytest.Session, connection: Connection, folder: Path) -> NoReturn:
    """What a worker does instead of all that its parent will do after this."""
    code = 1
    try:
        atexit._clear()
        random.seed()
        own_mounts.separate()
        _write_apart(session.config, folder)
        work = _Work(session, connection)
        session.config.pluginmanager.register(work)
        work.run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _write_apart(config: Any, folder: Path) -> None:
    """Let nothing that is written here be in the way of others: files, what tests print, the course of the run."""
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder
    capture, terminal = (config.pluginmanager.get_plugin(name) for name in ("capturemanager", "terminalreporter"))
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.pluginmanager.unregister(terminal)
    config.pluginmanager.register(_Terminal(terminal._tw), "terminalreporter")
    config.pluginmanager.unregister(name="seed-recorder")


class _Terminal:
    """For what a time limit writes when it is over."""

    def __init__(self, writer: object) -> None:
        self._tw = writer


class _Closing(pytest.Item):
    """Comes after the last test of each part, so that only what it shares with others stays, and takes that away."""

    def runtest(self) -> None: ...


class _Work:
    """In a worker: runs what it is given until that is nothing."""

    def __init__(self, session: pytest.Session, connection: Connection) -> None:
        self._session, self._connection = session, connection
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self._session.config
        self._reports.append(config.hook.pytest_report_to_serializable(config=config, report=report))

    def run(self) -> None:
        items = self._session.items
        closing = _Closing.from_parent(self._session, name="what its tests shared")
        try:
            while numbers := self._connection.recv():
                following = [*(items[number] for number in numbers[1:]), closing]
                for number, following_item in zip(numbers, following, strict=True):
                    self._connection.send((number, self._run_one(items[number], following_item)))
                self._connection.send((None, []))
            reports = self._run_one(closing, None)
            if any(report["outcome"] != "passed" for report in reports):
                self._connection.send((-1, reports))
        except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):  # nobody wants more
            self._session._setupstate.teardown_exact(None)

    def _run_one(self, item: pytest.Item, following: pytest.Item | None) -> list[dict[str, Any]]:
        self._reports = []
        self._session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._reports
