"""Manifests of the drafts, read from texts with several documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from localpv.api.translate import manifests
from localpv.errors import ConfigurationError

POD = """\
# A pod with a disk.
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: main, image: busybox}]
  volumes:
  - name: disk
    localVolume: {type: disk}
"""

OTHER = """\
apiVersion: v1
kind: ConfigMap   # as it is
metadata: {name: c}
data: {when: "2030-01-01", on: "yes"}
"""


def pod(*volumes: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "one"}, "spec": {"volumes": list(volumes), **spec}}


def said(obj: dict[str, Any]) -> list[str]:
    return [f"{'' if note.done else 'not done: '}{note.message}" for _, note in manifests.translate(obj).notes]


def test_documents_that_do_not_change_stay_to_the_letter() -> None:
    text = f"---\n{OTHER}---\n{POD}--- # the end\n{OTHER}"
    done = manifests.translate_text(text).text
    assert done.startswith(f"---\n{OTHER}---\n# A pod with a disk.\n")
    assert done.endswith(f"--- # the end\n{OTHER}")
    kinds = [document["kind"] for document in yaml.safe_load_all(done)]
    assert kinds == ["ConfigMap", "Pod", "ConfigMap"]


def test_text_without_anything_to_do_is_the_same_text() -> None:
    for text in ("", "# nothing\n", OTHER, json.dumps(yaml.safe_load(OTHER))):
        done = manifests.translate_text(text)
        assert (done.text, done.notes) == (text, ())


def test_document_on_the_line_of_its_separator_is_read() -> None:
    done = manifests.translate_text(
        '--- {"kind": "Pod", "spec": {"volumes": [{"name": "d", "localVolume": {"type": "disk"}}]}}\n'
    )
    (document,) = yaml.safe_load_all(done.text)
    assert "ephemeral" in document["spec"]["volumes"][0]


def test_json_stays_json() -> None:
    text = json.dumps(yaml.safe_load(POD)) + "\n" + json.dumps(yaml.safe_load(OTHER))
    done = manifests.translate_text(text).text
    first, second = done.rsplit("\n", 1)
    assert "ephemeral" in json.loads(first)["spec"]["volumes"][0]
    assert json.loads(second)["kind"] == "ConfigMap"


def test_order_of_fields_stays() -> None:
    document = yaml.safe_load(manifests.translate_text(POD).text)
    assert list(document) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(document["spec"]) == ["containers", "volumes"]


@pytest.mark.parametrize("text", ["a: [", "kind: Pod\n\tx: 1\n", '{"kind": "Pod"} {"kind": '])
def test_what_cannot_be_read_is_said_with_its_source(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"old\.yaml cannot be read"):
        manifests.translate_text(text, source="old.yaml")


def test_the_line_of_a_mistake_is_the_one_of_the_whole_file() -> None:
    with pytest.raises(ConfigurationError) as caught:
        manifests.translate_text("a: 1\n---\nb: 1\nc: {d: 1\n", source="old.yaml")
    assert str(caught.value).startswith("old.yaml cannot be read: line 5: did not find expected ',' or '}'")


def test_items_of_a_list_are_translated_each() -> None:
    whole = {"kind": "List", "items": [yaml.safe_load(OTHER), yaml.safe_load(POD)]}
    done = manifests.translate(whole)
    assert done.changed and "ephemeral" in done.obj["items"][1]["spec"]["volumes"][0]
    assert [title for title, _ in done.notes] == ["pod/one"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", ("spec", "template")),
        ("Job", ("spec", "template")),
        ("CronJob", ("spec", "jobTemplate", "spec", "template")),
        ("PodTemplate", ("template",)),
    ],
)
def test_templates_of_workloads_are_translated(kind: str, path: tuple[str, ...]) -> None:
    inner: Any = {"spec": {"volumes": [{"name": "d", "localVolume": {"type": "disk"}}]}}
    for name in reversed(path):
        inner = {name: inner}
    found: Any = manifests.translate({"kind": kind, **inner}).obj
    for name in path:
        found = found[name]
    assert "ephemeral" in found["spec"]["volumes"][0]


def test_claim_templates_of_a_stateful_set_get_their_class() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "local-fast", "other": "stays"}
    template = {"metadata": {"name": "data", "annotations": annotations}, "spec": {}}
    done = manifests.translate({"kind": "StatefulSet", "spec": {"volumeClaimTemplates": [template]}}).obj
    (claim,) = done["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "local-fast"
    assert claim["metadata"]["annotations"] == {"other": "stays"}
    assert template["metadata"]["annotations"] == annotations, "what was given stays as it was"


def test_class_that_contradicts_the_field_is_left_and_told() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "a"}},
        "spec": {"storageClassName": "b"},
    }
    assert not manifests.translate(claim).changed
    (sentence,) = said(claim)
    assert sentence.startswith("not done: volume.beta.kubernetes.io/storage-class is left as it is")


@pytest.mark.parametrize("text", ["{", "{}", '{"requiredDuringSchedulingIgnoredDuringExecution": 5}'])
def test_affinity_that_cannot_be_read_is_left_and_told(text: str) -> None:
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"annotations": {"volume.alpha.kubernetes.io/node-affinity": text}},
    }
    (sentence,) = said(volume)
    assert sentence.startswith("not done: volume.alpha.kubernetes.io/node-affinity is left as it is")


def test_volume_of_the_draft_becomes_a_local_volume_with_its_node() -> None:
    source = {"nodename": "n1", "path": "/var/vol-pool/disks/x", "volumesize": "10Gi", "type": "disk", "fsType": "xfs"}
    spec = manifests.translate({"kind": "PersistentVolume", "spec": {"localVolume": source}}).obj["spec"]
    assert spec["local"] == {"path": "/var/vol-pool/disks/x", "fsType": "xfs"}
    assert spec["capacity"] == {"storage": "10Gi"}
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]


def test_volume_of_the_draft_without_node_or_path_is_told() -> None:
    nowhere = {"kind": "PersistentVolume", "spec": {"localVolume": {"path": "/x", "type": "disk"}}}
    assert said(nowhere)[-1].startswith("not done: spec.nodeAffinity is missing")
    assert said({"kind": "PersistentVolume", "spec": {"localVolume": {"type": "disk"}}}) == [
        "not done: spec.localVolume is left as it is: it has no path"
    ]


def test_inline_volume_that_a_claim_cannot_ask_for_is_left_and_told() -> None:
    body = pod({"name": "v", "localVolume": {"type": "disk", "path": "/x"}})
    assert not manifests.translate(body).changed
    (sentence,) = said(body)
    assert sentence.startswith("not done: volume v: localVolume is left as it is: localVolume.path")


def test_node_of_an_inline_volume_becomes_that_of_the_pod() -> None:
    body = pod({"name": "v", "localVolume": {"type": "disk", "nodename": "n1"}}, nodeSelector={"a": "b"})
    assert manifests.translate(body).obj["spec"]["nodeSelector"] == {"a": "b", "kubernetes.io/hostname": "n1"}


def test_volume_that_has_another_source_as_well_is_left_and_told() -> None:
    body = pod({"name": "v", "localVolume": {"type": "disk"}, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    assert not manifests.translate(body).changed
    assert "another source" in said(body)[0]


def test_translation_of_a_translation_changes_nothing() -> None:
    once = manifests.translate_text(POD).text
    assert manifests.translate_text(once).text == once


def test_space_left_on_a_node_cannot_be_translated() -> None:
    annotations = {"volume.alpha.kubernetes.io/vgallocatable": '{"/dev/vg1":"12180"}'}
    assert said({"kind": "Node", "metadata": {"name": "n", "annotations": annotations}})[0].startswith("not done")


def test_class_of_a_version_that_is_gone_gets_the_present_one() -> None:
    assert manifests.translate({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1beta1"}).obj == {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
    }


@pytest.mark.parametrize("body", [{}, {"kind": "Pod"}, {"kind": "Pod", "spec": {"volumes": [3, {"localVolume": 1}]}}])
def test_odd_objects_are_left_alone(body: dict[str, Any]) -> None:
    assert not manifests.translate(body).changed
