"""Tries changes in children of a pytest that has collected already: to load and collect takes longer than most tests.

MUTANTS_TRIED names a file of orders, a line of JSON each: its number, the module, the outermost function that is
changed, the file with the changed source, and the tests, the first ones first. Order 0 has no change: a test that fails
there fails by itself and is left out of all others. Answers are lines of JSON in the file
verdicts of the folder MUTANTS_ANSWERS, /tmp.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import time
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import pytest

ORDERS = os.environ.get("MUTANTS_TRIED", "")
ANSWERS = os.environ.get("MUTANTS_ANSWERS", "/tmp")
TOGETHER = int(os.environ.get("MUTANTS_TOGETHER", "1"))
PATIENCE_SECONDS = float(os.environ.get("MUTANTS_PATIENCE", "20"))
"""How much longer than usual tests may take before they are said to run for ever."""


@dataclass
class Child:
    number: int
    pid: int
    ended: int
    """Something to read there: it has answered, or is no more."""

    until: float

    def end(self, *, in_time: bool) -> dict[str, Any]:
        os.close(self.ended)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # with all that it has started
        os.waitpid(self.pid, 0)
        answer: dict[str, Any] = {"said": "noticed", "by": "nothing goes on" if in_time else "they run for ever"}
        with contextlib.suppress(FileNotFoundError), open(f"{ANSWERS}/answer-{self.number}") as file:
            answer = json.load(file) if in_time else answer
        with open(f"{ANSWERS}/verdicts", "a") as file:
            file.write(json.dumps({"number": self.number, **answer}) + "\n")
        return answer


class Reports:
    def __init__(self) -> None:
        self.failed: list[str] = []
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.outcome == "failed" and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not ORDERS:
        return None
    items = {item.nodeid: item for item in session.items}
    with open(ORDERS) as file:
        control, *waiting = (json.loads(line) for line in file)
    child = _start(items, control, seconds=3600.0)
    select.select([child.ended], [], [])
    unchanged = child.end(in_time=True)
    usual: dict[str, float] = unchanged["seconds"]
    waiting.reverse()
    running: dict[int, Child] = {}
    while waiting or running:
        while waiting and len(running) < TOGETHER:
            order = waiting.pop()
            order["tests"] = [one for one in order["tests"] if one in usual and one not in unchanged["failed"]]
            child = _start(items, order, seconds=PATIENCE_SECONDS + 8 * sum(usual[one] for one in order["tests"]))
            running[child.ended] = child
        ready = select.select(list(running), [], [], 0.5)[0]
        for child in [one for one in running.values() if one.ended in ready or one.until < time.monotonic()]:
            child.end(in_time=child.ended in ready)
            del running[child.ended]
    return True


def _start(items: dict[str, pytest.Item], order: dict[str, Any], *, seconds: float) -> Child:
    reading, writing = os.pipe()
    if pid := os.fork():
        os.close(writing)
        return Child(order["number"], pid, reading, time.monotonic() + seconds)
    try:
        os.setsid()
        said = _try(items, order)
        with open(f"{ANSWERS}/answer-{order['number']}", "w") as file:
            json.dump(said, file)
    finally:
        os.write(writing, b".")
        os._exit(0)


def _try(items: dict[str, pytest.Item], order: dict[str, Any]) -> dict[str, Any]:
    if order["number"] and (why := _change(order)):
        return {"said": "not tried", "by": why}
    reports = Reports()
    tests = [items[one] for one in order["tests"] if one in items]
    if not tests:
        return {"said": "not tried", "by": "no test"}
    tests[0].config.pluginmanager.register(reports)
    for index, item in enumerate(tests):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next(iter(tests[index + 1 :]), None))
        if order["number"] and reports.failed:
            return {"said": "noticed", "by": reports.failed[0]}
    if order["number"]:
        return {"said": "passed"}
    return {"said": "control", "failed": reports.failed, "seconds": reports.seconds}


def _change(order: dict[str, Any]) -> str:
    """Give every function object of that name the changed code; say why that cannot be done."""
    path = os.path.realpath(order["module"])
    with open(order["changed"], "rb") as file:
        codes = list(_named(compile(file.read(), path, "exec"), order["function"]))
    gc.unfreeze()  # or the collector would not tell of them
    functions = [
        one
        for one in gc.get_objects()
        if type(one) is FunctionType
        and one.__code__.co_qualname == order["function"]
        and os.path.realpath(one.__code__.co_filename) == path
    ]
    if len(codes) != 1 or not functions:
        return f"{len(codes)} times in the module, {len(functions)} times loaded"
    if codes[0] == functions[0].__code__:
        return "it is not in the code of the function"
    for function in functions:
        function.__code__ = codes[0]
    return ""


def _named(code: CodeType, name: str) -> list[CodeType]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [found for one in inner for found in ([one] if one.co_qualname == name else _named(one, name))]
