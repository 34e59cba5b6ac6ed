from __future__ import annotations

import pytest

from localpv.config import reading as config_reading
from localpv.deploy import reading
from localpv.deploy.plan import IMAGE, NAMESPACE, Plan
from localpv.errors import ConfigurationError

SHORT = "storageClassMap: {fast: {hostDir: /mnt/fast}}\n"


def read(text: str, **options: str) -> Plan:
    return reading.read(text, source="config.yaml", **options)  # type: ignore[arg-type]


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    head, *lines = caught.value.message.splitlines()
    assert head == "config.yaml is not right:"
    return [line.strip() for line in lines]


def test_one_class_and_its_directory_are_enough() -> None:
    plan = read(SHORT)
    assert (plan.image, plan.namespace) == (IMAGE, NAMESPACE)
    assert plan.config.classes["fast"].mount_dir == "/mnt/fast"
    assert [(each.name, each.reclaim_policy, each.default) for each in plan.classes] == [("fast", "Delete", False)]


def test_the_config_map_means_what_the_file_says() -> None:
    plan = read(
        """
        storageClassMap:
          fast: {hostDir: /mnt/fast, requireMountPoint: yes, storageClass: {default: true}, fsType: 0123}
        labelsForPV: {rack: 007, zone: "1"}
        setPVOwnerRef: yes
        minResyncPeriod: 10m
        """
    )
    assert config_reading.read(plan.texts).config == plan.config
    assert plan.config.classes["fast"].require_mount_point
    assert plan.config.classes["fast"].fs_type == "0123"
    assert plan.config.labels_for_pv == {"rack": "007", "zone": "1"}
    assert plan.config.set_pv_owner_ref
    assert plan.config.min_resync_seconds == 600


@pytest.mark.parametrize(
    ("settings", "policies"),
    [
        ("", ["Delete"]),
        (", storageClass: false", []),
        (", storageClass: true", ["Delete"]),
        (", reclaim: Retain", ["Retain"]),
        (", reclaim: Recycle", ["Delete"]),
        (", storageClass: {reclaimPolicy: Retain}", ["Retain"]),
    ],
)
def test_a_storage_class_is_made_as_the_class_says(settings: str, policies: list[str]) -> None:
    plan = read(f"storageClassMap: {{fast: {{hostDir: /mnt/fast{settings}}}}}")
    assert [each.reclaim_policy for each in plan.classes] == policies
    assert "storageClass:" not in plan.texts["storageClassMap"]


def test_options_win_over_the_file() -> None:
    text = f"{SHORT}image: localhost/a:1\nnamespace: one\n"
    assert (read(text).image, read(text).namespace) == ("localhost/a:1", "one")
    plan = read(text, image="localhost/b:2", namespace="two")
    assert (plan.image, plan.namespace) == ("localhost/b:2", "two")


def test_cleaning_jobs_tolerate_what_agents_tolerate() -> None:
    assert read(f"{SHORT}useJobForCleaning: yes").config.job_tolerations == ({"operator": "Exists"},)
    own = "useJobForCleaning: true\njobTolerations: [{key: a, operator: Exists}]"
    assert read(f"{SHORT}{own}").config.job_tolerations == ({"key": "a", "operator": "Exists"},)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "storageClassMap: names no class: there would be nothing to offer"),
        ("storageClassMap: [", "line 2: cannot be read as YAML: did not find expected node content"),
        ("[]", "must be a map, but is a list"),
        (f"{SHORT}storageClasMap: {{}}", "storageClasMap: unknown key; did you mean storageClassMap?"),
        (
            "storageClassMap: {fast: {hostDir: /a, mountdir: /mnt/fast}}",
            "storageClassMap.fast.mountdir: unknown key; did you mean mountDir?",
        ),
        (
            "storageClassMap: {fast: {hostDir: /}}",
            "storageClassMap.fast.hostDir: / belongs to the system: everything in it would be offered, and wiped"
            " one day",
        ),
        (
            "storageClassMap: {fast: {hostDir: /a, storageClass: {reclaimPolicy: Recycle}}}",
            'storageClassMap.fast.storageClass.reclaimPolicy: "Recycle" is not known; there are Delete, Retain',
        ),
        (
            "storageClassMap: {fast: {hostDir: /a, storageClass: {isdefault: true}}}",
            "storageClassMap.fast.storageClass.isdefault: unknown key; did you mean default?",
        ),
        (f"{SHORT}manager: {{replicas: 0}}", "manager.replicas: must be from 1 to 9, but is 0"),
        (f"{SHORT}agent: {{replicas: 1}}", "agent.replicas: unknown key; there are"),
        (
            f"{SHORT}agent: {{resources: {{requests: {{cpu: lots}}}}}}",
            'agent.resources.requests.cpu: "lots" is no amount; write 100m, 0.5, 64Mi',
        ),
        (
            f"{SHORT}agent: {{tolerations: [{{effect: NoShedule}}]}}",
            'agent.tolerations[0].effect: "NoShedule" is not known; did you mean NoSchedule?',
        ),
        (f"{SHORT}agent: {{affinity: {{nodeAfinity: {{}}}}}}", "agent.affinity.nodeAfinity: unknown key; did you mean"),
        (f"{SHORT}image: 'a b'", 'image: "a b" is no name of an image'),
        (f"{SHORT}imagePullPolicy: Sometimes", 'imagePullPolicy: "Sometimes" is not known'),
        (f"{SHORT}namespace: A_B", 'namespace: "A_B" is no name of a namespace'),
        (
            "storageClassMap: {raw: {hostDir: /a, volumeMode: Block}}\nagent: {privileged: no}",
            "storageClassMap.raw.volumeMode: Block needs agents that are privileged, and agent says no",
        ),
        (
            "storageClassMap: {any: {hostDir: /a, volumeMode: Auto}}\nagent: {privileged: no}",
            "storageClassMap.any.volumeMode: Auto needs agents that are privileged, and agent says no",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, wrong: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(wrong)


def test_everything_wrong_is_told_at_once() -> None:
    assert len(problems("storageClassMap: {a: {hostDir: x}, b: {}}\nimages: a\nuseAlphaAPI: perhaps")) == 4


def test_a_drop_in_has_no_manager_to_configure() -> None:
    with pytest.raises(ConfigurationError, match="manager: there is no manager beside a drop-in"):
        reading.read(f"{SHORT}manager: {{replicas: 3}}", source="x", drop_in=True)
