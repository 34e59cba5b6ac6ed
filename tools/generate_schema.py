"""Writes src/localpv/api/schema/kubernetes.json from the OpenAPI documents of a Kubernetes release.

Only facts travel: names of fields, types, formats, which fields are required, defaults, and how lists and maps
merge. The sentences that describe them stay behind; ours are in descriptions.json.

    python tools/generate_schema.py [--check] [FOLDER]

FOLDER is the root of the Go module k8s.io/kubernetes. Without it, Go is asked where the module that the tests
build is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import go_modules
from localpv.api import resources, stored_resources

PROJECT = Path(__file__).resolve().parent.parent
TARGET = PROJECT / "src" / "localpv" / "api" / "schema" / "kubernetes.json"
TEST_MODULE = PROJECT / "tests" / "kubernetes" / "build"

_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_GVK = "x-kubernetes-group-version-kind"

BESIDES_RESOURCES = (
    *(
        _META + kind
        for kind in (
            "APIGroup",
            "APIGroupList",
            "APIResourceList",
            "APIVersions",
            "DeleteOptions",
            "LabelSelector",
            "ObjectMeta",
            "Patch",
            "Status",
            "WatchEvent",
        )
    ),
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apimachinery.pkg.version.Info",
)
"""Definitions that travel in requests and answers without being a resource that one can list."""

KEPT_KEYWORDS = frozenset(
    {
        "$ref",
        "additionalProperties",
        "allOf",
        "default",
        "enum",
        "format",
        "items",
        "oneOf",
        "properties",
        "required",
        "type",
        "x-kubernetes-group-version-kind",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-patch-merge-key",
        "x-kubernetes-patch-strategy",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-unions",
    }
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="root of the Go module k8s.io/kubernetes")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    options = parser.parse_args(arguments)

    try:
        folder = options.folder or go_modules.folder("k8s.io/kubernetes", TEST_MODULE)
    except go_modules.NoModule as reason:
        if not options.check:
            print(f"cannot generate {TARGET.name}: {reason}", file=sys.stderr)
            return 1
        print(f"{TARGET.name} was not checked: {reason}")
        return 0

    fresh = render(select(read(folder / "api" / "openapi-spec" / "v3")))
    relative = TARGET.relative_to(PROJECT)
    if not options.check:
        TARGET.write_text(fresh, encoding="utf-8")
        print(f"wrote {relative}: {len(fresh.splitlines()) - 2} definitions, {len(fresh) // 1024} KiB")
        return 0
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != fresh:
        print(f"{relative} is out of date: run `python tools/generate_schema.py`", file=sys.stderr)
        return 1
    return 0


def read(folder: Path) -> dict[str, Any]:
    """Every definition of every group, as it is."""
    definitions: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        definitions.update(document.get("components", {}).get("schemas", {}))
    if not definitions:
        raise SystemExit(f"no OpenAPI definitions found in {folder}")
    return definitions


def select(definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that our resources reach, freed of everything but facts."""
    served = {(resource.group, resource.version) for resource in (*stored_resources.EVERY, *resources.REVIEWS)}
    chosen: dict[str, Any] = {}
    waiting = list(roots(definitions))
    while waiting:
        name = waiting.pop()
        if name in chosen:
            continue
        chosen[name] = facts(definitions[name])
        waiting.extend(references(chosen[name]))

        # Options such as DeleteOptions are listed once for every group that Kubernetes has. We name those we serve.
        kinds = chosen[name].get(_GVK, [])
        if len(kinds) > 1:
            chosen[name][_GVK] = [kind for kind in kinds if (kind["group"], kind["version"]) in served]
    return chosen


def roots(definitions: dict[str, Any]) -> Iterator[str]:
    for resource in (*stored_resources.EVERY, *resources.REVIEWS):
        yield resource.schema
        if resource.schema + "List" in definitions:
            yield resource.schema + "List"
    yield from BESIDES_RESOURCES


def facts(schema: dict[str, Any]) -> dict[str, Any]:
    """One schema without sentences. A lone `allOf: [{$ref}]` is written as `$ref`; the catalogue expands it again."""
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword not in KEPT_KEYWORDS:
            continue
        match keyword:
            case "$ref":
                kept["$ref"] = value.removeprefix(_REF)
            case "properties":
                kept["properties"] = {name: facts(field) for name, field in value.items()}
            case "items" | "additionalProperties":
                kept[keyword] = facts(value)
            case "allOf" if len(value) == 1 and set(value[0]) == {"$ref"}:
                kept["$ref"] = value[0]["$ref"].removeprefix(_REF)
            case "allOf" | "oneOf":
                kept[keyword] = [facts(branch) for branch in value]
            case _:
                kept[keyword] = value
    return kept


def references(value: Any) -> Iterator[str]:
    """Names of the definitions that a schema refers to."""
    if isinstance(value, dict):
        for key, child in value.items():
            if key == "$ref" and isinstance(child, str):
                yield child
            else:
                yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def render(definitions: dict[str, Any]) -> str:
    """One definition per line: small, and a change of release shows as a readable difference."""
    lines = (
        f"{json.dumps(name)}:{json.dumps(schema, sort_keys=True, separators=(',', ':'))}"
        for name, schema in sorted(definitions.items())
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
