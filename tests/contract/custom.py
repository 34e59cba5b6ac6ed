"""Kinds that a test defines for itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

from localpv.api import crds

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

SIZE = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
"""A schema with one number in it."""


def _group() -> str:
    return f"{builders.unique('g')}.localpv.dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A custom kind in a group of its own, so that tests never meet each other's."""

    group: str = field(default_factory=_group)
    plural: str = "widgets"
    kind: str = "Widget"
    cluster_scoped: bool = False

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def definition(self, schema: Any = SIZE, *, versions: list[Any] | None = None, **version: Any) -> builders.Object:
        """A CustomResourceDefinition with one version v1, or with the versions given."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Cluster" if self.cluster_scoped else "Namespaced",
                "names": {"plural": self.plural, "singular": self.kind.lower(), "kind": self.kind},
                "versions": versions or [a_version("v1", schema, **version)],
            },
        }

    def path(self, space: Space, *parts: str, version: str = "v1") -> str:
        return space.of(f"{self.group}/{version}", self.plural, *parts)

    def object(self, name: str = "one", *, version: str = "v1", **fields: Any) -> builders.Object:
        return {"apiVersion": f"{self.group}/{version}", "kind": self.kind, "metadata": {"name": name}, **fields}


@dataclass(frozen=True, slots=True)
class Plan:
    """The kinds that a module of tests needs.

    A real API server lets the first request to a new kind wait two seconds, so
    they are all defined at once: a module that has a PLAN finds them served.
    """

    definitions: list[builders.Object] = field(default_factory=list)

    def kind(self, schema: Any = SIZE, *, versions: list[Any] | None = None, **version: Any) -> Kind:
        made = Kind()
        self.definitions.append(made.definition(schema, versions=versions, **version))
        return made


def an_object(properties: Any, **more: Any) -> Any:
    """The schema of an object with these properties."""
    return {"type": "object", "properties": properties, **more}


def with_spec(properties: Any, **more: Any) -> Any:
    """The schema of a kind whose spec has these properties and whose status has any."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return an_object({"spec": an_object(properties, **more), "status": free})


def a_version(name: str, schema: Any = SIZE, *, storage: bool = True, **more: Any) -> builders.Object:
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def define(api: Api, definition: builders.Object) -> Any:
    """Create the definition and wait until its kind is served."""
    return define_all(api, [definition])[0]


@contextlib.contextmanager
def installed(target: wire.Target, *names: str) -> Iterator[None]:
    """The server under test knows these kinds of ours, at least for the time of the tests."""
    api = wire.Api(target, target.token)
    definitions = [crds.load(name) for name in names]
    missing = [each for each in definitions if api.gone(f"{DEFINITIONS}/{each['metadata']['name']}")]
    define_all(api, missing)
    yield
    for definition in missing:
        api.send("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")
    api.close()


def define_all(api: Api, definitions: Sequence[builders.Object]) -> list[Any]:
    """Create the definitions and wait until all their kinds are served."""
    for definition in definitions:
        api.post(DEFINITIONS, definition)
    for definition in definitions:
        path = f"{DEFINITIONS}/{definition['metadata']['name']}"
        established(api, path)
        spec = definition["spec"]
        served = next(version["name"] for version in spec["versions"] if version["served"])
        listing = f"/apis/{spec['group']}/{served}/{spec['names']['plural']}"
        wire.eventually(partial(_answers, api, listing), "the kind is served")
    return [api.get(f"{DEFINITIONS}/{definition['metadata']['name']}") for definition in definitions]


def established(api: Api, path: str) -> None:
    """Wait until the names are accepted and the definition is in force."""
    wire.eventually(lambda: condition(api.get(path), "Established") == "True", "the definition is established")


def _answers(api: Api, path: str) -> bool:
    return api.send("GET", path).code == 200


def condition(definition: Any, kind: str) -> str | None:
    """The status of one condition of an object."""
    found = definition.get("status", {}).get("conditions") or []
    return next((entry["status"] for entry in found if entry["type"] == kind), None)
