"""Writes src/localpv/api/protobuf/messages.json from the Go modules of a Kubernetes release.

Only facts travel: which message a kind is, the numbers and types of its fields, what each field is called in JSON,
and whether Go leaves it out of JSON when it is zero. The numbers and types are those of the generated.proto
files, the rest is in the tags of the Go types beside them.

    python tools/generate_protobuf.py [--check] [FOLDER]

FOLDER holds the modules api, apimachinery and apiextensions-apiserver side by side, as in the sources of Kubernetes.
Without it, Go is asked where the modules that the tests build are kept.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import go_modules
from localpv.api import resources, stored_resources
from localpv.api.schema.catalogue import Catalogue

PROJECT = Path(__file__).resolve().parent.parent
TARGET = PROJECT / "src" / "localpv" / "api" / "protobuf" / "messages.json"
TEST_MODULE = PROJECT / "tests" / "kubernetes" / "build"

MODULES = ("api", "apimachinery", "apiextensions-apiserver")

BESIDES_RESOURCES = {
    "authentication.k8s.io/v1 TokenRequest": "io.k8s.api.authentication.v1.TokenRequest",
    "autoscaling/v1 Scale": "io.k8s.api.autoscaling.v1.Scale",
    "policy/v1 Eviction": "io.k8s.api.policy.v1.Eviction",
    "* DeleteOptions": "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",  # under the version of every group
}
"""Kinds that come in the body of a request without being a resource that one can list."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

WRITTEN_BY_HAND = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "json",
    _META + "FieldsV1": "json",
    _CRD + "JSON": "json",
    _META + "Time": "time",
    _META + "MicroTime": "micro-time",
    _CRD + "JSONSchemaPropsOrArray": "schema-or-array",
    _CRD + "JSONSchemaPropsOrBool": "schema-or-bool",
    _CRD + "JSONSchemaPropsOrStringArray": "schema-or-strings",
    "io.k8s.api.authentication.v1.ExtraValue": "strings",
    "io.k8s.api.authorization.v1.ExtraValue": "strings",
}
"""Messages that are something other than an object in JSON, and what the reader calls them."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MESSAGE = re.compile(r"message (\w+) \{([^{}]*)\}")
_FIELD = re.compile(r"(?:(optional|required|repeated) ([\w.]+)|map<(\w+), ([\w.]+)>) (\w+) = (\d+);")
_GO_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_GO_FIELD = re.compile(r'^\t([^`\n]+?)\s*`json:"([^"]*)"[^`]*protobuf:"\w+,(\d+)', re.MULTILINE)
_SCALARS = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})


@dataclass(frozen=True, kw_only=True)
class Tag:
    """What Go knows about a field and the protobuf file does not."""

    json: str
    """Name in JSON; empty when the fields of the message stand among those of the message around it."""
    pointer: bool
    omit_empty: bool


Messages = dict[str, dict[int, list[str]]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="folder with the Go modules of k8s.io")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    options = parser.parse_args(arguments)

    try:
        folders = {
            name: options.folder / name if options.folder else go_modules.folder(f"k8s.io/{name}", TEST_MODULE)
            for name in MODULES
        }
    except go_modules.NoModule as reason:
        if not options.check:
            print(f"cannot generate {TARGET.name}: {reason}", file=sys.stderr)
            return 1
        print(f"{TARGET.name} was not checked: {reason}")
        return 0

    kinds = {f"{resource.api_version} {resource.kind}": resource.schema for resource in all_resources()}
    kinds.update(BESIDES_RESOURCES)
    messages = select(sorted(kinds.values()), folders)
    compare(messages)
    fresh = render(kinds, messages)
    relative = TARGET.relative_to(PROJECT)
    if not options.check:
        TARGET.write_text(fresh, encoding="utf-8")
        print(f"wrote {relative}: {len(messages)} messages, {len(fresh) // 1024} KiB")
        return 0
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != fresh:
        print(f"{relative} is out of date: run `python tools/generate_protobuf.py`", file=sys.stderr)
        return 1
    return 0


def all_resources() -> Iterator[resources.Resource]:
    yield from stored_resources.EVERY
    yield from resources.REVIEWS


def select(roots: list[str], folders: dict[str, Path]) -> Messages:
    """The messages that the kinds reach, each as {number: [JSON name, type, marks]}."""
    packages: dict[str, Package] = {}
    chosen: Messages = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in chosen:
            continue
        home = name.rpartition(".")[0]
        if home not in packages:
            packages[home] = Package(home, folders)
        chosen[name] = packages[home].message(name)
        waiting.extend(kind for _, kind, _ in chosen[name].values() if is_message(kind))
    return chosen


class Package:
    """One Go package: its generated.proto, and the tags of its types."""

    def __init__(self, home: str, folders: dict[str, Path]) -> None:
        _, _, module, *rest = home.split(".")
        folder = folders[module].joinpath(*rest)
        self.home = home
        text = _COMMENT.sub("", (folder / "generated.proto").read_text(encoding="utf-8"))
        self.messages = {match[1]: match[2] for match in _MESSAGE.finditer(text)}
        self.tags: dict[str, dict[int, Tag]] = {}
        for path in sorted(folder.glob("*.go")):
            if not path.name.endswith("_test.go"):
                self.tags.update(go_tags(path.read_text(encoding="utf-8")))

    def message(self, name: str) -> dict[int, list[str]]:
        short = name.rpartition(".")[2]
        tags = self.tags.get(short, {})
        fields = {}
        for match in _FIELD.finditer(self.messages[short]):
            label, kind, key, value, proto_name, digits = match.groups()
            if key not in (None, "string"):
                raise SystemExit(f"{name} has a map with keys of type {key}, which the reader does not know")
            number = int(digits)
            if number not in tags:
                raise SystemExit(f"{name}.{proto_name} has no tag in Go: its JSON form is written by hand")
            tag = tags[number]
            marks = "m" if key else "r" if label == "repeated" else "p" if tag.pointer else ""
            marks += "o" if tag.omit_empty else ""
            marks += "i" if not tag.json else ""
            fields[number] = [tag.json, self.qualified(kind or value), marks]
        return fields

    def qualified(self, kind: str) -> str:
        if kind in _SCALARS:
            return kind
        if "." in kind:
            name = "io.k8s." + kind.removeprefix(".").removeprefix("k8s.io.").replace("_", "-")
        else:
            name = f"{self.home}.{kind}"
        return WRITTEN_BY_HAND.get(name, name)


def is_message(kind: str) -> bool:
    return kind.startswith("io.k8s.")


def go_tags(source: str) -> Iterator[tuple[str, dict[int, Tag]]]:
    """Every struct of a Go file that has protobuf numbers."""
    for struct in _GO_STRUCT.finditer(source):
        tags = {}
        for field in _GO_FIELD.finditer(struct[2]):
            declared, json_tag, number = field.groups()
            json_name, *json_options = json_tag.split(",")
            tags[int(number)] = Tag(
                json=json_name,
                pointer=declared.split()[-1].startswith("*"),
                omit_empty="omitempty" in json_options,
            )
        if tags:
            yield struct[1], tags


def compare(messages: Messages) -> None:
    """Two sources of the same names must agree: the definitions of the schema have the fields of the messages."""
    catalogue = Catalogue()
    added = catalogue.additions()
    for name in messages:
        if name not in catalogue:
            continue  # its fields stand among those of the message around it, and are compared there
        ours = set(json_names(name, messages)) | {"apiVersion", "kind"}
        # What we add to a kind of Kubernetes comes as JSON only.
        theirs = set(catalogue.openapi(name).get("properties", {})) - set(added.get(name, {}).get("properties", {}))
        theirs |= {"apiVersion", "kind"}
        if ours != theirs:
            raise SystemExit(f"{name}: protobuf and schema differ in {sorted(ours ^ theirs)}")


def json_names(name: str, messages: Messages) -> Iterator[str]:
    for json_name, kind, marks in messages[name].values():
        if "i" in marks:
            yield from json_names(kind, messages)
        else:
            yield json_name


def render(kinds: dict[str, str], messages: Messages) -> str:
    """One message per line: small, and a change of release shows as a readable difference."""
    lines = []
    for name, fields in sorted(messages.items()):
        home = name.rpartition(".")[0] + "."
        facts = {
            # A message of the same package goes by its short name; marks that say nothing are left out.
            str(number): [json_name, kind.removeprefix(home)] + ([marks] if marks else [])
            for number, (json_name, kind, marks) in sorted(fields.items())
        }
        lines.append(f"{json.dumps(name)}:{json.dumps(facts, separators=(',', ':'))}")
    kind_lines = (f"{json.dumps(kind)}:{json.dumps(name)}" for kind, name in sorted(kinds.items()))
    return '{"kinds":{\n' + ",\n".join(kind_lines) + '\n},\n"messages":{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    sys.exit(main())
