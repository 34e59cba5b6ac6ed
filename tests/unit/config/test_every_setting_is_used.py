"""A setting that nobody reads is a promise that nobody keeps."""

from __future__ import annotations

import ast
import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

import localpv
from localpv.config.environment import Environment
from localpv.config.settings import ClassSettings, Configuration, NodeLoss
from localpv.deploy.plan import ClassObject, Plan, Pods

SOURCE = Path(localpv.__file__).parent
READERS = {"config/reading.py", "config/environment.py", "deploy/reading.py", "deploy/plan.py"}
"""Who fills settings in; to be read by these is not enough."""


@functools.cache
def read_attributes() -> set[str]:
    """The names of all attributes that are read anywhere else."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if str(path.relative_to(SOURCE)) not in READERS:
            nodes = ast.walk(ast.parse(path.read_text()))
            found |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    return found


@pytest.mark.parametrize("settings", [ClassSettings, Configuration, NodeLoss, Environment, ClassObject, Plan, Pods])
def test_every_setting_is_read_by_somebody(settings: Any) -> None:
    unread = {field.name for field in dataclasses.fields(settings)} - read_attributes()
    assert unread == set()
