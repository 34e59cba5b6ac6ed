"""Tries changes in children of a pytest that has collected already: to load and collect takes longer than most tests.

MUTANTS_TRIED names a file of orders, a line of JSON each: its number, the module, the outermost function that is
changed, the file with the changed source, and the tests, the first ones first, with the seconds that each usually
takes. Answers are lines of JSON in the file verdicts of the folder MUTANTS_ANSWERS, /tmp.

A test that fails is run without the change as well, once; if it fails then too, no order hears of it.
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
    order: dict[str, Any]
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
        with contextlib.suppress(FileNotFoundError), open(_answer_of(self.order)) as file:
            answer = json.load(file) if in_time else answer
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_answer_of(self.order))
        return answer


class Reports:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "failed":
            self.failed.append(report.nodeid)


class Controls:
    """What tests do without a change."""

    def __init__(self, items: dict[str, pytest.Item]) -> None:
        self._items = items
        self._passes: dict[str, bool] = {}

    def fails(self, test: str) -> bool:
        if test not in self._passes:
            child = _start(self._items, {"number": 0, "tests": {test: 60.0}})
            ended = bool(select.select([child.ended], [], [], max(0.0, child.until - time.monotonic()))[0])
            self._passes[test] = child.end(in_time=ended)["said"] == "passed"
        return not self._passes[test]

    def take_as_long(self, tests: dict[str, float]) -> bool:
        child = _start(self._items, {"number": 0, "tests": tests})
        ended = bool(select.select([child.ended], [], [], max(0.0, child.until - time.monotonic()))[0])
        child.end(in_time=ended)
        return not ended


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not ORDERS:
        return None
    items = {item.nodeid: item for item in session.items}
    controls = Controls(items)
    with open(ORDERS) as file:
        waiting = [json.loads(line) for line in file][::-1]
    running: dict[int, Child] = {}
    while waiting or running:
        while waiting and len(running) < TOGETHER:
            child = _start(items, waiting.pop())
            running[child.ended] = child
        ready = select.select(list(running), [], [], 0.5)[0]
        for child in [one for one in running.values() if one.ended in ready or one.until < time.monotonic()]:
            del running[child.ended]
            in_time = child.ended in ready
            answer = child.end(in_time=in_time)
            if not in_time and controls.take_as_long(child.order["tests"]):
                answer = {"said": "not tried", "by": "the tests take too long without the change too"}
            if answer["said"] == "noticed" and answer["by"] in items and controls.fails(answer["by"]):
                del child.order["tests"][answer["by"]]
                waiting.append(child.order)
                continue
            with open(f"{ANSWERS}/verdicts", "a") as file:
                file.write(json.dumps({"number": child.order["number"], **answer}) + "\n")
    return True


def _start(items: dict[str, pytest.Item], order: dict[str, Any]) -> Child:
    reading, writing = os.pipe()
    if pid := os.fork():
        os.close(writing)
        return Child(order, pid, reading, time.monotonic() + PATIENCE_SECONDS + 4 * sum(order["tests"].values()))
    try:
        os.setsid()
        said = _try(items, order)
        with open(_answer_of(order), "w") as file:
            json.dump(said, file)
    finally:
        os.write(writing, b".")
        os._exit(0)


def _answer_of(order: dict[str, Any]) -> str:
    return f"{ANSWERS}/answer-{order['number']}"


def _try(items: dict[str, pytest.Item], order: dict[str, Any]) -> dict[str, Any]:
    if order["number"] and (why := _change(order)):
        return {"said": "not tried", "by": why}
    tests = [items[one] for one in order["tests"] if one in items]
    if not tests:
        return {"said": "not tried", "by": "no test"}
    reports = Reports()
    tests[0].config.pluginmanager.register(reports)
    for index, item in enumerate(tests):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next(iter(tests[index + 1 :]), None))
        if reports.failed:
            return {"said": "noticed", "by": reports.failed[0]}
    return {"said": "passed"}


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
