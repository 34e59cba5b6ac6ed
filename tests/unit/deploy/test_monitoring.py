"""How Prometheus finds the pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localpv.deploy import everything, pods, reading

CLASSES = {"fast": {"hostDir": "/mnt/fast"}}


def made(*, drop_in: bool = False, **keys: Any) -> list[Any]:
    text = json.dumps({"storageClassMap": CLASSES, **keys})
    return everything.objects(reading.read(text, source="x", drop_in=drop_in))


def templates(objects: list[Any]) -> list[Any]:
    return [obj["spec"]["template"] for obj in objects if obj["kind"] in ("DaemonSet", "Deployment")]


@pytest.mark.parametrize("drop_in", [False, True])
def test_annotations_say_where_the_metrics_are(drop_in: bool) -> None:
    found = templates(made(drop_in=drop_in))
    assert len(found) == (1 if drop_in else 2)
    for template in found:
        port = next(port for port in template["spec"]["containers"][0]["ports"] if port["name"] == "metrics")
        assert template["metadata"]["annotations"] == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(port["containerPort"]),
        }


def test_annotations_of_the_administrator_win() -> None:
    agent, manager = templates(made(agent={"podAnnotations": {"prometheus.io/scrape": "false", "a": "b"}}))
    assert agent["metadata"]["annotations"] == {**pods.SCRAPED, "prometheus.io/scrape": "false", "a": "b"}
    assert manager["metadata"]["annotations"] == pods.SCRAPED


@pytest.mark.parametrize("drop_in", [False, True])
def test_pod_monitor_finds_all_pods_and_nothing_is_read_twice(drop_in: bool) -> None:
    objects = made(drop_in=drop_in, podMonitor=True, namespace="storage")
    monitor = next(obj for obj in objects if obj["kind"] == "PodMonitor")
    assert monitor["metadata"]["namespace"] == "storage"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["storage"]}
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    for template in templates(objects):
        assert wanted <= template["metadata"]["labels"].items()
        assert "annotations" not in template["metadata"]
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert {end["port"] for end in monitor["spec"]["podMetricsEndpoints"]} <= ports
