"""Volumes written into pods as in the first drafts: as they are on our engine, on Kubernetes by `localpv translate`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from tests.workloads.crew import Crew, Object

from localpv.testing.waiting import PATIENCE_SECONDS

DISKS = """\
apiVersion: v1
kind: Pod
metadata:
  name: ld-test
spec:
  schedulerName: nobody
  containers:
  - image: busybox
    command:
      - sleep
      - "3600"
    imagePullPolicy: IfNotPresent
    name: ld-test
    volumeMounts:
    - mountPath: /mnt/disk1
      name: test-vol1
    - mountPath: /mnt/disk2
      name: test-vol2
  volumes:
  - localVolume:
        type: disk
    name: test-vol1
  - localVolume:
        type: disk
    name: test-vol2
  restartPolicy: Always
"""

DRAFTS = """\
kind: PersistentVolumeClaim
apiVersion: v1
metadata:
  name: mydisk2-1
  annotations:
    volume.beta.kubernetes.io/storage-class: "local-ssd"
    volume.beta.kubernetes.io/group: '{"name":"group1", "count":"2"}'
spec:
  accessModes:
    - ReadWriteOnce
  resources:
    requests:
      storage: 100Gi
---
kind: PersistentVolumeClaim
apiVersion: v1
metadata:
  name: myclaim
  annotations:
    volume.alpha.kubernetes.io/storage-class: local-volume
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata:
  name: mylvm01
spec:
  schedulerName: nobody
  containers:
  - image: busybox
    name: mylvm01
    volumeMounts:
    - mountPath: /mnt
      name: test-lvm
    - mountPath: /mnt/vol
      name: test-vol
  volumes:
  - localVolume:
        type: "lvm"
        volumesize: 500Gi
        fsType: "ext4"
    name: test-lvm
  - PersistentVolumeClaim:
        claimName: myclaim
    name: test-vol
  restartPolicy: Always
"""

VOLUME = """\
apiVersion: v1
kind: PersistentVolume
metadata:
  name: {name}
  annotations:
    volume.beta.kubernetes.io/storage-class: workloads-drafts
    "volume.alpha.kubernetes.io/node-affinity": '{{
      "requiredDuringSchedulingIgnoredDuringExecution": {{
        "nodeSelectorTerms": [
          {{"matchExpressions": [{{"key": "kubernetes.io/hostname", "operator": "In", "values": ["my-node"]}}]}}
        ]}}
      }}'
spec:
  capacity: {{storage: 5Gi}}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local: {{path: /mnt/disks/ssd1}}
"""


def translate(text: str) -> tuple[list[Object], str]:
    """The documents after translation, and what was said about it."""
    command = [sys.executable, "-m", "localpv", "translate", "-f", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    return list(yaml.safe_load_all(done.stdout)), done.stderr


@pytest.mark.seed("LVD-7")
def test_claims_are_made_for_inline_disks_and_deleted_with_the_pod(crew: Crew, pytestconfig: pytest.Config) -> None:
    on_kubernetes = pytestconfig.getoption("--kubeconfig") is not None
    body = translate(DISKS)[0][0] if on_kubernetes else yaml.safe_load(DISKS)
    pod = crew.create(body)
    wanted = {"ld-test-test-vol1", "ld-test-test-vol2"}
    crew.until(lambda: set(crew.claims()) == wanted, "a claim for each disk")
    for claim in crew.claims().values():
        assert claim["spec"]["storageClassName"] == "local-ssd"
        assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        assert claim["metadata"]["annotations"]["localpv.dev/local-volume"] == '{"type":"disk"}'
    crew.delete_pod("ld-test")
    crew.until(lambda: not crew.claims(), "no claim left")


def test_translated_drafts_are_accepted_and_mean_what_they_meant(crew: Crew) -> None:
    documents, said = translate(DRAFTS)
    first, second, pod = (crew.create(each) for each in documents)
    assert first["spec"]["storageClassName"] == "local-ssd"
    assert "volume.beta.kubernetes.io/group" in first["metadata"]["annotations"]
    assert "volume.beta.kubernetes.io/storage-class" not in first["metadata"]["annotations"]
    assert second["spec"]["storageClassName"] == "local-volume"
    inline, named = pod["spec"]["volumes"][:2]
    template = inline["ephemeral"]["volumeClaimTemplate"]
    assert template["spec"]["resources"]["requests"]["storage"] == "500Gi"
    assert named["persistentVolumeClaim"]["claimName"] == "myclaim"
    assert "pod/mylvm01: volume test-lvm: localVolume is now an ephemeral volume of class local-volume" in said


def test_translated_volume_has_its_class_and_node_in_the_spec(crew: Crew) -> None:
    (body,), said = translate(VOLUME.format(name=f"drafts-{crew.space.name}"))
    spec = crew.api.post("/api/v1/persistentvolumes", body)["spec"]
    assert spec["storageClassName"] == "workloads-drafts"
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["my-node"]
    assert said.count("is now") == 2
