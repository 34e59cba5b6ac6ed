"""Variables of containers, from everywhere they may come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.engine.kubelet.builders import container, pod

from localpv.engine.kubelet import environment
from localpv.engine.kubelet.environment import Environment
from localpv.engine.kubelet.events import BadConfig
from localpv.engine.kubelet.images.store import Config


class Sources:
    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return {"a": b"map-a", "b": b"map-b"} if (namespace, name) == ("default", "config") else None

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return {"pass": b"word"} if (namespace, name) == ("default", "secret") else None


async def values(*env: dict[str, Any], sources: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, str]:
    of = pod(containers=[container(env=list(env), envFrom=list(sources), **more)], serviceAccountName="robot")
    found = Environment(Sources(), machine={"cpu": "4", "memory": "8Gi"}, host_ip="192.0.2.9")
    return await found.of(of, of.spec.containers[0])


def reference(kind: str, **fields: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {kind: fields}}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "a"),
        ("x$(A)y$(B)", "xayb"),
        ("$(NO)", "$(NO)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$$", "$"),
    ],
)
def test_names_in_parentheses_are_replaced(text: str, expanded: str) -> None:
    assert environment.expand(text, {"A": "a", "B": "b"}) == expanded


async def test_variables_refer_to_those_before_them() -> None:
    found = await values({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"})
    assert found == {"A": "1", "B": "1$(C)", "C": "3"}


async def test_whole_sources_come_first_and_may_have_a_prefix() -> None:
    sources = ({"configMapRef": {"name": "config"}}, {"prefix": "S_", "secretRef": {"name": "secret"}})
    found = await values({"name": "a", "value": "own"}, sources=sources)
    assert found == {"a": "own", "b": "map-b", "S_pass": "word"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (reference("configMapKeyRef", name="config", key="a"), "map-a"),
        (reference("secretKeyRef", name="secret", key="pass"), "word"),
        (reference("fieldRef", fieldPath="metadata.namespace"), "default"),
        (reference("fieldRef", fieldPath="spec.serviceAccountName"), "robot"),
        (reference("fieldRef", fieldPath="status.hostIP"), "192.0.2.9"),
        (reference("fieldRef", fieldPath="metadata.labels['none']"), ""),
        (reference("resourceFieldRef", resource="limits.memory", divisor="1Mi"), "8192"),
        (reference("resourceFieldRef", resource="limits.cpu"), "4"),
        (reference("resourceFieldRef", resource="requests.cpu", divisor="1m"), "0"),
    ],
)
async def test_variable_comes_from_where_it_says(variable: dict[str, Any], value: str) -> None:
    assert await values(variable) == {"X": value}


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        (reference("configMapKeyRef", name="no", key="a"), 'configmap "no" not found'),
        (reference("secretKeyRef", name="no", key="a"), 'secret "no" not found'),
        (reference("secretKeyRef", name="secret", key="no"), "couldn't find key no in Secret default/secret"),
        (reference("fieldRef", fieldPath="spec.volumes"), "unsupported fieldPath"),
    ],
)
async def test_what_is_missing_is_named(variable: dict[str, Any], why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        await values(variable)


async def test_what_is_optional_may_be_missing() -> None:
    assert await values(reference("secretKeyRef", name="no", key="a", optional=True)) == {}
    assert await values(reference("configMapKeyRef", name="config", key="no", optional=True)) == {}
    assert await values(sources=({"configMapRef": {"name": "no", "optional": True}},)) == {}


def test_container_wins_over_what_the_image_says() -> None:
    found = environment.merged(Config(env=("PATH=/own", "A=image")), {"A": "pod"}, "name")
    assert set(found) == {"PATH=/own", "A=pod", "HOSTNAME=name"}
