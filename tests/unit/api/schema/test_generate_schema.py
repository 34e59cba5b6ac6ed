"""The tool that writes kubernetes.json."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[4] / "tools" / "generate_schema.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_schema", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for child in value.values() for text in strings(child)]
    if isinstance(value, list):
        return [text for child in value for text in strings(child)]
    return [value] if isinstance(value, str) else []


def test_the_file_has_facts_and_no_sentences(tool: ModuleType) -> None:
    definitions = json.loads(tool.TARGET.read_text())

    assert len(definitions) > 300
    assert [text for text in strings(definitions) if " " in text] == []


def test_the_file_is_up_to_date_where_that_can_be_told(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_a_machine_without_the_go_module_is_told_so(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    assert tool.main(["--check"]) == 0
    assert "was not checked: Go is not installed here" in capsys.readouterr().out
    assert tool.main([]) == 1


def test_an_old_file_is_told(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specification = tmp_path / "api" / "openapi-spec" / "v3"
    specification.mkdir(parents=True)
    everything = {name: {"type": "object", "description": "Somebody's words."} for name in tool.BESIDES_RESOURCES}
    everything |= {resource.schema: {"type": "object"} for resource in tool.stored_resources.EVERY}
    everything |= {resource.schema: {"type": "object"} for resource in tool.resources.REVIEWS}
    (specification / "api_openapi.json").write_text(json.dumps({"components": {"schemas": everything}}))
    monkeypatch.setattr(tool, "PROJECT", tmp_path)
    monkeypatch.setattr(tool, "TARGET", tmp_path / "kubernetes.json")

    assert tool.main(["--check", str(tmp_path)]) == 1
    assert "out of date" in capsys.readouterr().err
    assert tool.main([str(tmp_path)]) == 0
    assert tool.main(["--check", str(tmp_path)]) == 0
    assert "Somebody" not in (tmp_path / "kubernetes.json").read_text()


def test_a_field_that_is_called_description_stays(tool: ModuleType) -> None:
    schema = {"description": "words", "properties": {"description": {"type": "string", "description": "words"}}}

    assert tool.facts(schema) == {"properties": {"description": {"type": "string"}}}
