"""Writes observed.json: what Kubernetes says to the examples, which is what both engines are then asked to say.

python -m tests.contract.observe --kubeconfig FILE
"""

from __future__ import annotations

import argparse
import json
import secrets
from pathlib import Path
from typing import Any

from tests.contract import builders, wire
from tests.contract.builders import Object
from tests.contract.examples import CHANGES, EXAMPLES, STATUS, WRONG, WRONG_STATUS, merged
from tests.contract.spaces import Space
from tests.contract.wire import Api

from localpv.api.resources import Resource
from localpv.api.stored_resources import STORED

FILE = Path(__file__).with_name("observed.json")
MOVING = ("Age", "Created At", "Limit", "MissingPL", "Request")
"""Columns about time, and about what a controller has said by now."""

RESOURCES: dict[str, Resource] = {resource.kind: resource for resource in STORED}


def name_for(kind: str) -> str:
    """A name that no other test uses."""
    if kind == "IPAddress":
        return f"10.{secrets.randbelow(200)}.{secrets.randbelow(250)}.{secrets.randbelow(250)}"
    return builders.unique("stored")


def path_of(resource: Resource, space: Space) -> str:
    scope = f"/namespaces/{space.name}" if resource.namespaced else ""
    return f"{resource.path}{scope}/{resource.plural}"


def body_of(kind: str, name: str) -> Object:
    resource = RESOURCES[kind]
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}, **EXAMPLES[kind]}


def content(obj: Object) -> Object:
    """All but metadata, which differs each time, and what a controller may have said by now."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def table_of(api: Api, path: str, name: str) -> Object:
    """Columns, and the cells of one object."""
    table = api.get(path, accept=wire.TABLE, fieldSelector=f"metadata.name={name}")
    (row,) = table["rows"]
    columns = [[each[key] for key in ("name", "type", "format", "priority")] for each in table["columnDefinitions"]]
    # Kubernetes has a cell without a column in the table of IPAddresses.
    cells = [None if column[0] in MOVING else cell for column, cell in zip(columns, row["cells"], strict=False)]
    return {"columns": columns, "cells": ["NAME" if cell == name else cell for cell in cells]}


def causes(answer: Any) -> list[list[str]]:
    """Reason and field of everything that is wrong."""
    return sorted({tuple(each) for each in wire.causes(answer)})  # type: ignore[misc]


def observe(api: Api, space: Space, kind: str) -> Object:
    resource, name = RESOURCES[kind], name_for(kind)
    path = path_of(resource, space)
    made = api.post(path, body_of(kind, name))
    seen: Object = {
        "made": content(made),
        "generation": made["metadata"].get("generation"),
        **table_of(api, path, name),
    }
    seen["wrong"] = [
        causes(api.post(path, merged(body_of(kind, name_for(kind)), wrong), expect=422)) for wrong in WRONG[kind]
    ]
    seen["changes"] = [causes(api.merge(f"{path}/{name}", change, expect=422)) for change in CHANGES.get(kind, ())]
    if kind in WRONG_STATUS:
        seen["wrong_status"] = causes(api.merge(f"{path}/{name}/status", {"status": WRONG_STATUS[kind]}, expect=422))
    if kind in STATUS:
        api.merge(f"{path}/{name}/status", {"status": STATUS[kind]})
    deleted = api.delete(f"{path}/{name}")
    # A controller keeps ServiceCIDRs until nobody uses them; elsewhere the answer is the kind's own.
    return seen if kind == "ServiceCIDR" else {**seen, "deleted": deleted["kind"]}


def discovered(api: Api) -> Object:
    """Every entry of a stable group version, by its address."""
    found: Object = {}
    # Groups of kinds that tests have defined come and go.
    stable = [group for group in api.get("/apis")["groups"] if not group["name"].endswith("localpv.dev")]
    groups = [f"/apis/{each['groupVersion']}" for group in stable for each in group["versions"]]
    for path in ("/api/v1", *groups):
        for entry in api.get(path)["resources"]:
            found[f"{path}/{entry['name']}"] = entry
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    target = wire.read_kubeconfig(parser.parse_args().kubeconfig)
    api = wire.Api(target, target.token)
    try:
        space = Space(api.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"])
        wire.eventually(lambda: api.send("GET", space.core("serviceaccounts", "default")).code == 200, "the account")
        seen = {kind: observe(api, space, kind) for kind in EXAMPLES}
        lines = [
            '{"discovery": {',
            ",\n".join(f"{json.dumps(path)}: {json.dumps(entry)}" for path, entry in sorted(discovered(api).items())),
            '}, "kinds": {',
            ",\n".join(f"{json.dumps(kind)}: {json.dumps(each)}" for kind, each in seen.items()),
            "}}",
        ]
        FILE.write_text("\n".join(lines) + "\n")
    finally:
        api.clean_up()
        api.close()


if __name__ == "__main__":
    main()
