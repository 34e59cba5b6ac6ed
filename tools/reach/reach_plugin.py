"""Tells `sitecustomize` in a sandbox of `mutants.py` which test runs, and prints how each one ended."""

from __future__ import annotations

import os

import pytest
import sitecustomize

OUTCOMES = os.environ.get("MUTANTS_OUTCOMES", "")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    if sitecustomize.reach is not None:
        sitecustomize.reach.begin(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if OUTCOMES:
        with open(OUTCOMES, "a") as file:
            file.write(f"{report.nodeid}\t{report.when}\t{report.outcome}\t{report.duration:.3f}\n")
