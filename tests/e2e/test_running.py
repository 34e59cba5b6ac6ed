"""What a pod is made of besides its disks: several containers, what they are given, how they end and what is kept."""

from __future__ import annotations

from typing import Any

from tests.contract import builders, wire
from tests.e2e import pods
from tests.e2e.place import Place

GRACE = int(10 * pods.POD_SECONDS)
"""Seconds that a pod is given to end, more than a test waits for it: one that heeds the word is gone long before."""


def _states(pod: Any) -> dict[str, Any]:
    return {one["name"]: one["state"] for one in pod["status"]["containerStatuses"]}


def _at(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


def test_init_containers_prepare_in_order_what_the_containers_share(here: pods.Here) -> None:
    shared = {"volumeMounts": [_at("shared", "/shared")]}
    name = here.create(
        {
            "volumes": [{"name": "shared", "emptyDir": {}}],
            "initContainers": [
                here.container("one", "sh", "-c", "echo one >/shared/list", **shared),
                here.container("two", "sh", "-c", "echo two >>/shared/list", **shared),
            ],
            "containers": [
                here.container("writer", "sh", "-c", "echo $WORD-$(WORD) >/shared/word", **shared)
                | {"env": [{"name": "WORD", "value": "said"}]},
                here.container("reader", "sh", "-c", "until test -s /shared/word; do :; done; cat /shared/*", **shared),
            ],
        }
    )

    pod = here.wait(name, "Succeeded", "Failed")

    assert pod["status"]["phase"] == "Succeeded"
    assert here.log(name, container="reader") == "one\ntwo\nsaid-said\n"
    ends = [one["state"]["terminated"] for one in pod["status"]["initContainerStatuses"]]
    assert [end["reason"] for end in ends] == ["Completed", "Completed"]
    assert ends[0]["finishedAt"] <= ends[1]["startedAt"]
    here.delete(name)


def test_exit_codes_of_all_containers_are_told_and_one_failure_fails_the_pod(here: pods.Here) -> None:
    good = here.container("good", "true")
    bad = here.container("bad", "sh", "-c", "echo last words; exit 7")
    killed = here.container("killed", "sh", "-c", "kill -9 $$")

    name = here.create({"containers": [good, bad, killed]})
    pod = here.wait(name, "Succeeded", "Failed")

    ends = {one: state["terminated"] for one, state in _states(pod).items()}
    assert pod["status"]["phase"] == "Failed"
    assert {one: end["exitCode"] for one, end in ends.items() if one != "killed"} == {"good": 0, "bad": 7}
    assert {one: end["reason"] for one, end in ends.items()} == {"good": "Completed", "bad": "Error", "killed": "Error"}
    assert ends["bad"]["message"] == "last words\n"
    here.delete(name)


def test_container_that_fails_is_started_again_and_finds_what_it_left_in_the_pod(here: pods.Here) -> None:
    script = "test -e /kept/before && exit 0; touch /kept/before; exit 3"
    spec = {"restartPolicy": "OnFailure", "volumes": [{"name": "kept", "emptyDir": {"medium": "Memory"}}]}

    name = here.start("sh", "-c", script, spec=spec, volumeMounts=[_at("kept", "/kept")])
    pod = here.wait(name, "Succeeded", "Failed")

    status = pod["status"]["containerStatuses"][0]
    assert pod["status"]["phase"] == "Succeeded"
    assert status["restartCount"] == 1
    assert status["state"]["terminated"]["exitCode"] == 0
    here.delete(name)


def test_configuration_and_secrets_are_files_and_variables_and_files_follow(here: pods.Here) -> None:
    config, secret = builders.unique("config"), builders.unique("secret")
    here.api.post(here.space.core("configmaps"), {"metadata": {"name": config}, "data": {"word": "old", "more": "x"}})
    here.api.post(here.space.core("secrets"), {"metadata": {"name": secret}, "stringData": {"key": "hidden"}})
    volumes = [
        {"name": "config", "configMap": {"name": config, "items": [{"key": "word", "path": "in/word"}]}},
        {"name": "secret", "secret": {"secretName": secret, "defaultMode": 0o400}},
    ]
    script = (
        "cat /config/in/word; echo; ls /config; cat /secret/key; echo; stat -Lc %a /secret/key; echo $KEY;"
        " touch /config/new 2>/dev/null || echo refused; until grep -q new /config/in/word; do sleep 0.2; done"
    )
    name = here.start(
        "sh",
        "-c",
        script,
        spec={"volumes": volumes},
        volumeMounts=[_at("config", "/config"), _at("secret", "/secret")],
        env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "key"}}}],
    )
    here.until_says(name, "refused\n")

    changed = {"data": {"word": "new"}}
    here.api.send("PATCH", here.space.core("configmaps", config), changed, content_type=wire.MERGE_PATCH)
    # A kubelet looks at a pod again when the pod changes, or else after a minute and more.
    here.api.send(
        "PATCH",
        here.space.core("pods", name),
        {"metadata": {"annotations": {"look": "again"}}},
        content_type=wire.MERGE_PATCH,
    )
    here.wait(name, "Succeeded")

    assert here.log(name).split() == ["old", "in", "hidden", "400", "hidden", "refused"]
    here.delete(name)


def test_container_has_the_user_groups_and_rights_that_the_pod_gives_it(here: pods.Here) -> None:
    spec = {
        "securityContext": {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000]},
        "volumes": [{"name": "own", "emptyDir": {}}],
    }
    script = (
        "id -u; id -g; id -G; touch /file 2>/dev/null || echo refused; touch /own/file; stat -c %u:%g /own/file;"
        " test -e /dev/loop0 -o -e /dev/sda || echo none"
    )

    pod, said = here.run(
        "sh",
        "-c",
        script,
        spec=spec,
        volumeMounts=[_at("own", "/own")],
        securityContext={"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False},
    )

    lines = said.splitlines()
    assert lines[:2] == ["1000", "3000"]
    assert set(lines[2].split()) == {"3000", "2000", "4000"}
    assert lines[3:] == ["refused", "1000:2000", "none"]
    here.delete(pod["metadata"]["name"])


def test_parts_of_a_volume_go_to_the_containers_that_name_them(here: pods.Here, place: Place) -> None:
    host, path = place.hosts[-1], f"{place.folder}/{builders.unique('parts')}"
    host.run("sh", "-c", f"mkdir -p {path}/b && echo kept >{path}/b/file && ln -s / {path}/out")
    claim = here.volume_on(host.name, path)
    made, there = _at("disk", "/a", subPath="a/deep"), _at("disk", "/b", subPath="b", readOnly=True)
    script = "echo new >/a/file; cat /b/file; touch /b/new 2>/dev/null || echo refused"

    pod, said = here.run("sh", "-c", script, spec=pods.claimed(claim), volumeMounts=[made, there])
    here.delete(pod["metadata"]["name"])

    assert said == "kept\nrefused\n"
    assert host.run("cat", f"{path}/a/deep/file") == "new\n"
    # A link that leads out of the volume would show the pod the whole machine.
    name = here.start("true", spec=pods.claimed(claim), volumeMounts=[_at("disk", "/out", subPath="out/etc")])
    here.until(name, lambda pod: _waits(pod), "is refused")
    assert here.get(name)["status"]["phase"] == "Pending"
    here.delete(name)
    host.run("rm", "-rf", "--one-file-system", path)


def _waits(pod: Any) -> bool:
    found = pod["status"].get("containerStatuses", [])
    return bool(found) and found[0]["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError"


def test_pod_is_told_to_end_and_has_its_time_for_it(here: pods.Here, place: Place) -> None:
    host, path = place.hosts[-1], f"{place.folder}/{builders.unique('ending')}"
    host.run("mkdir", path)
    claim = here.volume_on(host.name, path)
    script = "trap 'sleep 1; echo ended >/data/file; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    name = here.start("sh", "-c", script, spec=pods.claimed(claim), volumeMounts=[_at("disk", "/data")])
    wire.eventually(lambda: here.log(name) == "ready\n", "it listens", within=pods.POD_SECONDS)

    # It is gone before that: what has ended is not waited for.
    here.delete(name, grace=GRACE)

    assert host.run("cat", f"{path}/file") == "ended\n"
    host.run("rm", "-r", path)


def test_image_that_is_not_there_is_never_pulled_and_told(here: pods.Here) -> None:
    name = here.start("true", image="localhost/nowhere:none")

    def waits(pod: Any) -> Any:
        found = pod["status"].get("containerStatuses", [])
        return bool(found) and found[0]["state"].get("waiting", {}).get("reason") == "ErrImageNeverPull"

    pod = here.until(name, waits, "says that its image is not there")

    assert "localhost/nowhere:none" in pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    here.delete(name)
