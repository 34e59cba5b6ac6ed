"""Writes src/localpv/csi/messages.json from the published Go modules of CSI and of the kubelet's plugin registration.

Only facts travel: the services with their methods, the numbers and types of the fields of each message, the names of
the values of each enumeration. What a later release of the specification has reserved is taken from the release that
the tested Kubernetes is built on, which still sends and reads it.

    python tools/generate_csi.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import go_modules

PROJECT = Path(__file__).resolve().parent.parent
TARGET = PROJECT / "src" / "localpv" / "csi" / "messages.json"
TEST_MODULE = PROJECT / "tests" / "kubernetes" / "build" / "csi"
KUBERNETES_MODULE = PROJECT / "tests" / "kubernetes" / "build"

SPECIFICATION = "github.com/container-storage-interface/spec"
REGISTRATION = ("k8s.io/kubelet", "pkg/apis/pluginregistration/v1/api.proto")

SCALARS = frozenset({"bool", "bytes", "int32", "int64", "string"})

WELL_KNOWN = {
    "google.protobuf.BoolValue": {1: ["value", "bool"]},
    "google.protobuf.Int64Value": {1: ["value", "int64"]},
    "google.protobuf.Timestamp": {1: ["seconds", "int64"], 2: ["nanos", "int32"]},
}
"""Messages that protobuf itself brings along."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r'"[^"]*"|[\w.]+|[^\s\w]')


@dataclass
class Tables:
    """What the files say. A field is [name, type] or [name, type, marks]: r repeated, m map, oNAME one of several."""

    methods: dict[str, list[str]] = field(default_factory=dict)
    messages: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    options = parser.parse_args(arguments)
    try:
        now = go_modules.folder(SPECIFICATION, TEST_MODULE) / "csi.proto"
        before = go_modules.folder(SPECIFICATION, KUBERNETES_MODULE) / "csi.proto"
        registration = go_modules.folder(REGISTRATION[0], TEST_MODULE) / REGISTRATION[1]
    except go_modules.NoModule as reason:
        if not options.check:
            print(f"cannot generate {TARGET.name} of CSI: {reason}", file=sys.stderr)
            return 1
        print(f"{TARGET.name} of CSI was not checked: {reason}")
        return 0

    tables = read(now)
    add_reserved(tables, read(before))
    registering = read(registration)
    tables.methods |= registering.methods
    tables.messages |= registering.messages | WELL_KNOWN
    fresh = render(tables)
    relative = TARGET.relative_to(PROJECT)
    if not options.check:
        TARGET.write_text(fresh, encoding="utf-8")
        print(f"wrote {relative}: {len(tables.messages)} messages, {len(tables.methods)} methods")
        return 0
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != fresh:
        print(f"{relative} is out of date: run `python tools/generate_csi.py`", file=sys.stderr)
        return 1
    return 0


def read(path: Path) -> Tables:
    tables = Tables()
    tokens = iter(_TOKEN.findall(_COMMENT.sub("", path.read_text(encoding="utf-8"))))
    raw: dict[str, dict[int, list[str]]] = {}
    package = ""
    for token in tokens:
        match token:
            case "package":
                package = next(tokens)
            case "service":
                _service(tokens, package, tables)
            case "message":
                _message(tokens, package, raw, tables)
            case "enum":
                _enum(tokens, package, tables)
            case "extend":
                _skip_block(tokens)
            case "syntax" | "import" | "option":
                _until(tokens, ";")
            case ";":
                pass
            case other:
                raise SystemExit(f"{path.name}: {other} is nothing that this reader knows")
    for name, fields in raw.items():
        tables.messages[name] = {number: _resolved(name, facts, raw, tables) for number, facts in fields.items()}
    return tables


def _service(tokens: Iterator[str], package: str, tables: Tables) -> None:
    service = next(tokens)
    depth, words = 0, list[str]()
    for token in tokens:
        depth += {"{": 1, "}": -1}.get(token, 0)
        if token == "rpc":
            words = []
        words.append(token)
        if token == ")" and "returns" in words:
            plain = [word for word in words if word not in "()"]
            # rpc Name Request returns Response; what streams is not called by anything here.
            if plain[0] == "rpc" and len(plain) == 5:
                name, request, response = plain[1], plain[2], plain[4]
                tables.methods[f"/{package}.{service}/{name}"] = [f"{package}.{request}", f"{package}.{response}"]
            words = []
        if not depth:
            return


def _message(tokens: Iterator[str], home: str, raw: dict[str, dict[int, list[str]]], tables: Tables) -> None:
    name = f"{home}.{next(tokens)}"
    fields = raw.setdefault(name, {})
    _expect(tokens, "{")
    one_of = ""
    for token in tokens:
        match token:
            case "}" if one_of:
                one_of = ""
            case "}":
                return
            case "message":
                _message(tokens, name, raw, tables)
            case "enum":
                _enum(tokens, name, tables)
            case "oneof":
                one_of = "o" + next(tokens)
                _expect(tokens, "{")
            case "reserved" | "option":
                _until(tokens, ";")
            case ";":
                pass
            case "map":
                words = _until(tokens, ";")  # < string , string > name = number
                if words[:5] != ["<", "string", ",", "string", ">"]:
                    raise SystemExit(f"{name} has a map of something else than texts")
                fields[int(words[7])] = [words[5], "string", "m"]
            case "repeated":
                words = _until(tokens, ";")
                fields[int(words[3])] = [words[1], words[0], "r"]
            case kind:
                words = _until(tokens, ";")
                fields[int(words[2])] = [words[0], kind, one_of]


def _enum(tokens: Iterator[str], home: str, tables: Tables) -> None:
    values = tables.enums.setdefault(f"{home}.{next(tokens)}", {})
    _expect(tokens, "{")
    for token in tokens:
        if token == "}":
            return
        words = _until(tokens, ";")
        if token not in ("reserved", "option"):
            values[int(words[1])] = token


def _resolved(message: str, facts: list[str], raw: dict[str, dict[int, list[str]]], tables: Tables) -> list[str]:
    """A field with the full name of its type: looked for from the inside outwards, as protobuf does."""
    name, kind, marks = facts
    if kind not in SCALARS:
        scope = message
        while f"{scope}.{kind}" not in raw and f"{scope}.{kind}" not in tables.enums and "." in scope:
            scope = scope.rpartition(".")[0]
        outer = f"{scope}.{kind}"
        kind = outer if outer in raw or outer in tables.enums else kind.removeprefix(".")
        if kind not in raw and kind not in tables.enums and kind not in WELL_KNOWN:
            raise SystemExit(f"{message}.{name} is of type {kind}, which nobody defines")
    return [name, kind, marks] if marks else [name, kind]


def add_reserved(now: Tables, before: Tables) -> None:
    """Fields, values and messages of the earlier release whose numbers the later one does not use."""
    for name, message in before.messages.items():
        now.messages[name] = message | now.messages.get(name, {})
    for name, values in before.enums.items():
        now.enums[name] = values | now.enums.get(name, {})


def _expect(tokens: Iterator[str], wanted: str) -> None:
    if (token := next(tokens)) != wanted:
        raise SystemExit(f"{token} where {wanted} should be")


def _until(tokens: Iterator[str], end: str) -> list[str]:
    words = []
    while (token := next(tokens)) != end:
        words.append(token)
    return words


def _skip_block(tokens: Iterator[str]) -> None:
    depth = 0
    for token in tokens:
        depth += {"{": 1, "}": -1}.get(token, 0)
        if token == "}" and not depth:
            return


def render(tables: Tables) -> str:
    """One fact per line: a change of release shows as a readable difference."""
    parts = []
    for title, table in (("methods", tables.methods), ("messages", tables.messages), ("enums", tables.enums)):
        lines = []
        for name, facts in sorted(table.items()):
            ordered = dict(sorted(facts.items())) if isinstance(facts, dict) else facts
            lines.append(f"{json.dumps(name)}:{json.dumps(ordered, separators=(',', ':'))}")
        parts.append(f'"{title}":{{\n' + ",\n".join(lines) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    sys.exit(main())
