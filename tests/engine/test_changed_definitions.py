"""A server that starts does not know under which schema its objects were stored: it reads all by that of now."""

from __future__ import annotations

from pathlib import Path

from tests import engine_process
from tests.contract import custom, wire
from tests.contract.spaces import Space


def test_objects_from_before_a_change_of_their_schema_are_defaulted_after_a_restart(tmp_path: Path) -> None:
    kind, space = custom.Kind(), Space("default")
    new = custom.with_spec({"size": {"type": "integer"}, "mode": {"type": "string", "default": "fast"}})
    with engine_process.running(data=tmp_path / "data") as engine:
        target = wire.read_kubeconfig(engine.kubeconfig)
        api = wire.Api(target, target.token)
        custom.define(api, kind.definition())
        api.post(kind.path(space), kind.object("old", spec={"size": 1}))
        versions = [custom.a_version("v1", new)]
        api.merge(f"{custom.DEFINITIONS}/{kind.name}", {"spec": {"versions": versions}})
        young = kind.object("young", spec={"mode": "slow"})
        wire.eventually(
            lambda: api.post(kind.path(space), young, dryRun="All")["spec"] == young["spec"],
            "the new schema is in force",
        )
        api.post(kind.path(space), young)
        api.close()
    with engine_process.running(data=tmp_path / "data") as engine:
        target = wire.read_kubeconfig(engine.kubeconfig)
        api = wire.Api(target, target.token)
        found = {item["metadata"]["name"]: item["spec"] for item in api.get(kind.path(space))["items"]}
        assert found == {"old": {"size": 1, "mode": "fast"}, "young": {"mode": "slow"}}
        assert api.get(kind.path(space, "old"))["spec"] == found["old"]
        api.close()
