"""From which nodes a volume can be reached, wherever that is written: the field, the annotation of old, or both."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import localpv
from localpv.api import node_selector, volume_affinity
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import PersistentVolume
from localpv.volume import fit

HOSTNAME = "kubernetes.io/hostname"
NODE = {HOSTNAME: "n1", "disk": "nvme"}


def on(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def volume(*, field: list[dict[str, Any]] | None = None, annotation: str = "", **spec: Any) -> PersistentVolume:
    if field is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": field}}
    annotations = {volume_affinity.ANNOTATION: annotation} if annotation else {}
    made = {"metadata": {"name": "pv", "annotations": annotations}, "spec": spec}
    return msgspec.convert(made, PersistentVolume)


def text(*terms: dict[str, Any]) -> str:
    return volume_affinity.annotation(list(terms))


def fits(one: PersistentVolume, labels: dict[str, str]) -> bool:
    return fit.fits_node(one, Node(metadata=ObjectMeta(name="n1", labels=labels)))


def both_forms(*terms: dict[str, Any]) -> list[PersistentVolume]:
    return [volume(field=list(terms)), volume(annotation=text(*terms))]


@pytest.mark.seed("AFF-1")
def test_volume_without_affinity_fits_every_node() -> None:
    for one in (volume(), volume(nodeAffinity={})):
        assert fits(one, NODE) and fits(one, {})
        assert not volume_affinity.of(one).names_nodes


@pytest.mark.seed("AFF-2", "AFF-7")
@pytest.mark.parametrize("terms", [[on(HOSTNAME, "In", "n1")], [on("zone", "Exists"), on(HOSTNAME, "In", "n0", "n1")]])
def test_volume_fits_a_node_that_has_the_labels(terms: list[dict[str, Any]]) -> None:
    assert all(fits(one, NODE) for one in both_forms(*terms))


@pytest.mark.seed("AFF-3", "AFF-7")
def test_volume_does_not_fit_a_node_that_lacks_the_label() -> None:
    for terms in ([on("zone", "In", "a")], [on("zone", "Exists")]):
        assert not any(fits(one, NODE) or fits(one, {}) for one in both_forms(*terms))


@pytest.mark.seed("AFF-4", "AFF-7")
def test_volume_does_not_fit_a_node_with_another_value() -> None:
    assert not any(fits(one, NODE) for one in both_forms(on(HOSTNAME, "In", "n2")))


@pytest.mark.seed("AFF-7")
def test_where_a_volume_has_both_forms_both_must_hold() -> None:
    here, there = [on(HOSTNAME, "In", "n1")], [on(HOSTNAME, "In", "n2")]
    assert fits(volume(field=here, annotation=text(*here)), NODE)
    for field, annotation in ((here, there), (there, here), (there, there)):
        assert not fits(volume(field=field, annotation=text(*annotation)), NODE)
    assert volume_affinity.of(volume(field=here, annotation=text(*there))).values(HOSTNAME) == frozenset()


WRONG = [
    *("{", "[]", '"n1"', "{}", "null", "5", json.dumps({node_selector.REQUIRED: None})),
    json.dumps({node_selector.REQUIRED: {}}),
    json.dumps({node_selector.REQUIRED: {"nodeSelectorTerms": []}}),
    json.dumps({node_selector.REQUIRED: {"nodeSelectorTerms": [on(HOSTNAME, "Near", "n1")]}}),
    json.dumps({node_selector.REQUIRED: {"nodeSelectorTerms": [on(HOSTNAME, "In")]}}),
    json.dumps({node_selector.PREFERRED: [{"weight": 1, "preference": on(HOSTNAME, "In", "n1")}]}),
]


@pytest.mark.seed("AFF-7")
@pytest.mark.parametrize("annotation", WRONG)
def test_annotation_that_cannot_be_understood_lets_no_node_have_the_volume(annotation: str) -> None:
    for one in (volume(annotation=annotation), volume(annotation=annotation, field=[on(HOSTNAME, "In", "n1")])):
        affinity = volume_affinity.of(one)
        assert not fits(one, NODE) and not fits(one, {})
        assert affinity.names_nodes and not affinity.readable and affinity.values(HOSTNAME) == frozenset()


def test_labels_that_a_node_must_have_are_found_in_both_forms() -> None:
    for one in both_forms(on(HOSTNAME, "In", "n1", "n2")):
        affinity = volume_affinity.of(one)
        assert affinity.anchors(most=2) == [(HOSTNAME, "n1"), (HOSTNAME, "n2")] and affinity.anchors(most=1) == []
        assert affinity.values(HOSTNAME) == {"n1", "n2"} and affinity.values("zone") is None
        assert affinity.mentioned(HOSTNAME) == ("n1", "n2")
    alternatives = volume_affinity.of(volume(field=[on(HOSTNAME, "In", "n1"), on("zone", "In", "a")]))
    assert alternatives.anchors(most=9) == [] and alternatives.values(HOSTNAME) is None


def test_nobody_else_reads_the_node_affinity_of_a_volume() -> None:
    """Whoever reads the field alone takes a volume with the annotation for one that every node can use."""
    root = Path(localpv.__file__).parent
    readers = {"api/volume_affinity.py"}
    # The field as such is written, compared and checked for form there, and nobody asks for nodes.
    writers = {
        *(
            "engine/apiserver/kinds/persistentvolume.py",
            "api/translate/manifests.py",
            "manager/publish/persistent_volume.py",
            "manager/provision/persistent_volume.py",
            "manager/migrate/affinity.py",
        ),
        "engine/kubelet/volumes/volume_spec.py",  # a list of the names of fields
    }
    # `nodeAffinity` of pods, which is another field of the same name.
    of_pods = {
        *(
            "engine/apiserver/kinds/pod_scheduling.py",
            "engine/apiserver/kinds/pod_update.py",
            "engine/apiserver/kinds/pod_warnings.py",
        ),
        *("engine/apiserver/kinds/job.py", "engine/controllers/daemon_nodes.py", "deploy/reading.py"),
        "deploy/local_storage.py",
        *("engine/scheduler/pod_info.py", "engine/scheduler/scores.py", "engine/scheduler/filters.py"),
        *("engine/scheduler/admission.py", "engine/scheduler/topology_spread.py"),
    }
    found = set()
    for path in root.rglob("*.py"):
        name = str(path.relative_to(root))
        if name.startswith("api/schema/"):  # generated facts
            continue
        text = path.read_text()
        if not any(word in text for word in ("node_affinity", "nodeAffinity", volume_affinity.ANNOTATION)):
            continue  # parsing all there is takes seconds
        for each in ast.walk(ast.parse(text)):
            attribute = isinstance(each, ast.Attribute) and each.attr == "node_affinity"
            key = isinstance(each, ast.Constant) and each.value in ("nodeAffinity", volume_affinity.ANNOTATION)
            if attribute or key:
                found.add(name)
    assert found == readers | writers | of_pods, "ask api/volume_affinity.py for the nodes of a volume"
