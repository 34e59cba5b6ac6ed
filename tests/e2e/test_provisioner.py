"""The provisioner's own tests, in the order and by the sentences of the documents, with localpv as users run it.

Claims name their volume, so no pod is needed. Failing requests, which need rights taken away, are in
`tests/journey/test_rights.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract import builders, wire
from tests.e2e import classes, disks, pods
from tests.e2e.disks import SECONDS
from tests.e2e.place import Host, Place

from localpv.manager.publish import capacity, names

LIST = "e2e-list"
SECRET = b"the old tenant's secret "
MIB = 1 << 20


@pytest.fixture
def host(place: Place) -> Host:
    return place.hosts[-1]


@pytest.fixture
def directory(place: Place, host: Host) -> Iterator[str]:
    """The name of a new directory among the disks of the class that most of these tests share."""
    name = builders.unique("disk")
    host.run("mkdir", f"{place.folder}/{LIST}/{name}")
    yield name
    host.run("rm", "-rf", "--one-file-system", f"{place.folder}/{LIST}/{name}")


# -- discovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.seed("DSC-1", "DSC-5", "DSC-6", "DSC-10", "DSC-11", "CFG-2", "LIF-4")
def test_directory_not_in_the_cache_becomes_a_volume_with_the_name_class_room_and_node_that_are_documented(
    place: Place, here: pods.Here, host: Host, directory: str
) -> None:
    volume = disks.offered(place, here, LIST, entry=directory)

    meta, spec = volume["metadata"], volume["spec"]
    assert meta["name"] == names.volume_name(directory, host.name, LIST)
    assert spec["storageClassName"] == LIST
    uid = here.api.get(f"/api/v1/nodes/{host.name}")["metadata"]["uid"]
    assert meta["annotations"]["pv.kubernetes.io/provisioned-by"] == f"local-volume-provisioner-{host.name}-{uid}"
    blocks, size = map(int, host.run("stat", "-f", "-c", "%b %S", spec["local"]["path"]).split())
    assert spec["capacity"] == {"storage": capacity.quantity(blocks * size)}
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    label = here.api.get(f"/api/v1/nodes/{host.name}")["metadata"]["labels"]["kubernetes.io/hostname"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": [label]}]
    assert disks.entry(here, LIST, directory)["spec"]["nodeName"] == host.name


@pytest.mark.seed("DSC-2", "DSC-3")
def test_directory_in_the_cache_gets_no_second_volume_and_directories_created_later_get_theirs(
    place: Place, here: pods.Here, host: Host, directory: str
) -> None:
    before = disks.offered(place, here, LIST, entry=directory)

    place.kill_localpv(host)
    later = builders.unique("later")
    host.run("mkdir", f"{place.folder}/{LIST}/{later}")
    try:
        disks.offered(place, here, LIST, entry=later)
        same = [one for one in disks.volumes(here, LIST) if one["spec"]["local"] == before["spec"]["local"]]
        assert [one["metadata"]["uid"] for one in same] == [before["metadata"]["uid"]]
    finally:
        host.run("rmdir", f"{place.folder}/{LIST}/{later}")


@pytest.mark.seed("DSC-4", "DSC-8")
def test_unconfigured_directories_are_ignored_and_what_is_no_directory_makes_no_volume(
    place: Place, here: pods.Here, host: Host
) -> None:
    elsewhere, folder = f"{place.folder}/e2e-unconfigured", f"{place.folder}/{LIST}"
    host.run("sh", "-c", f"mkdir -p {elsewhere}/disk; echo notes >{folder}/notes; mkfifo {folder}/pipe")
    later = builders.unique("later")
    try:
        for entry in ("notes", "pipe"):
            disk = disks.told(here, LIST, "NotADirectoryNorDevice", entry_name=entry)
            assert (disk["status"]["phase"], disk["status"]["eligible"]) == ("Unavailable", False)
        host.run("mkdir", f"{folder}/{later}")
        disks.offered(place, here, LIST, entry=later)  # so all others had time to be
        paths = [one["spec"]["local"]["path"] for one in here.api.get("/api/v1/persistentvolumes")["items"]]
        assert not [path for path in paths if path.startswith(elsewhere) or path.endswith(("/notes", "/pipe"))]
        assert not [one for one in disks.all_disks(here) if one["spec"]["path"].startswith(elsewhere)]
    finally:
        host.run("rm", "-rf", elsewhere, f"{folder}/notes", f"{folder}/pipe", f"{folder}/{later}")


@pytest.mark.seed("DSC-9", "DSC-12", "E2E-9")
def test_discovery_directory_with_block_and_file_system_volumes_has_a_volume_of_its_own_mode_for_each(
    place: Place, here: pods.Here, host: Host
) -> None:
    folder = f"{place.folder}/e2e-auto"
    host.run("sh", "-c", f"mkdir {folder}/plain {folder}/mounted && mount -t tmpfs -o size=32m tmpfs {folder}/mounted")
    try:
        with disks.linked(place, host, "e2e-auto", entry="device"):
            found = {
                entry: disks.offered(place, here, "e2e-auto", entry=entry)["spec"]["volumeMode"]
                for entry in ("device", "mounted", "plain")
            }
            kinds = {one: disks.entry(here, "e2e-auto", one)["status"]["kind"] for one in found}
        assert found == {"device": "Block", "mounted": "Filesystem", "plain": "Filesystem"}
        assert kinds == {"device": "BlockDevice", "mounted": "MountPoint", "plain": "Directory"}
    finally:
        # Lazily: localpv may be looking into it at this moment.
        host.run("sh", "-c", f"umount --lazy {folder}/mounted; rmdir {folder}/mounted {folder}/plain")


@pytest.mark.seed("CFG-1")
def test_path_of_a_volume_is_on_the_host_wherever_the_program_sees_the_directory(
    place: Place, here: pods.Here, host: Host
) -> None:
    with disks.linked(place, host, "e2e-seen"):
        volume = disks.offered(place, here, "e2e-seen")

    assert volume["spec"]["local"]["path"] == f"{place.folder}/e2e-seen/disk"


@pytest.mark.seed("DSC-8")
def test_link_to_a_directory_or_mount_point_is_told_and_makes_no_volume_and_a_bind_mount_does(
    place: Place, here: pods.Here, host: Host
) -> None:
    name = builders.unique("linked")
    base, folder = f"{place.folder}/{name}", f"{place.folder}/{LIST}"
    plain, mounted = f"{name}-plain", f"{name}-mounted"
    host.run("sh", "-c", f"mkdir -p {base}/plain {base}/mounted && echo kept >{base}/plain/file")
    host.run("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", f"{base}/mounted")
    try:
        host.run("sh", "-c", f"ln -s {base}/plain {folder}/{plain}; ln -s {base}/mounted {folder}/{mounted}")
        for entry in (plain, mounted):
            status = wire.eventually(lambda entry=entry: _judged(here, entry), f"{entry} is told", within=SECONDS)
            # In a container the same words lead nowhere, or into the container itself.
            assert status["reason"] in ("LinkToDirectory", "DanglingLink")
            assert not status.get("eligible")
            assert "bind-mount" in status["message"]

        assert host.run("cat", f"{base}/plain/file") == "kept\n"
        bind = f"mount --bind {base}/plain {plain} && mount --bind {base}/full {plain}-full"
        host.run("sh", "-c", f"mkdir {base}/full && mv {base}/plain/file {base}/full/")  # only what is empty is offered
        host.run("sh", "-c", f"cd {folder} && rm {plain} && mkdir {plain} {plain}-full && {bind}")
        volume = disks.offered(place, here, LIST, entry=plain)
        assert volume["spec"]["local"]["path"] == f"{folder}/{plain}"
        assert "'file'" in disks.told(here, LIST, "NotEmpty", entry_name=f"{plain}-full")["status"]["message"]
        assert not [one for one in disks.volumes(here, LIST) if one["spec"]["local"]["path"].endswith(mounted)]
    finally:
        host.run("sh", "-c", f"umount --lazy {base}/mounted {folder}/{plain} {folder}/{plain}-full", check=False)
        made = (f"{folder}/{entry}" for entry in (plain, f"{plain}-full", mounted))
        host.run("rm", "-rf", "--one-file-system", base, *made)


# -- deletion ----------------------------------------------------------------------------------------------------------


@pytest.mark.seed("DEL-1", "DEL-10", "CLN-8")
def test_released_volume_is_emptied_deleted_and_told_of(
    place: Place, here: pods.Here, host: Host, directory: str
) -> None:
    old = disks.offered(place, here, LIST, entry=directory)
    path = old["spec"]["local"]["path"]
    claim = disks.take(here, old)
    host.run("sh", "-c", f"mkdir {path}/deep && echo secret >{path}/deep/file && ln -s /etc/passwd {path}/link")

    disks.give_back(here, claim)
    disks.offered(place, here, LIST, entry=directory, instead_of=old)

    assert host.run("ls", "-A", path) == ""
    assert host.run("test", "-s", "/etc/passwd") == ""
    all_of_it = {"CleaningStarted", "CleaningFinished", "VolumeDelete"}
    wire.eventually(lambda: all_of_it <= disks.events(here, old).keys(), "all was told", within=SECONDS)
    said = disks.events(here, old)
    assert "can take long" in said["CleaningStarted"]
    assert "is clean" in said["CleaningFinished"]


@pytest.mark.seed("DEL-2")
def test_volume_in_any_other_phase_is_neither_cleaned_nor_deleted(
    place: Place, here: pods.Here, host: Host, directory: str
) -> None:
    kept = f"{place.folder}/e2e-kept/disk"
    host.run("mkdir", kept)
    bound = disks.offered(place, here, LIST, entry=directory)
    retained = disks.offered(place, here, "e2e-kept")
    for volume in (bound, retained):
        claim = disks.take(here, volume)
        host.run("sh", "-c", f"echo secret >{volume['spec']['local']['path']}/file")
    disks.give_back(here, claim)
    path = f"/api/v1/persistentvolumes/{retained['metadata']['name']}"
    wire.eventually(lambda: here.api.get(path)["status"]["phase"] == "Released", "it is released", within=SECONDS)

    with disks.linked(place, host, "e2e-swapped", entry="other"):
        other = disks.offered(place, here, "e2e-swapped", entry="other")
        disks.give_back(here, disks.take(here, other))
        disks.offered(place, here, "e2e-swapped", entry="other", instead_of=other)  # the circle turns for others

        for volume, phase in ((bound, "Bound"), (retained, "Released")):
            now = here.api.get(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")
            assert (now["metadata"]["uid"], now["status"]["phase"]) == (volume["metadata"]["uid"], phase)
            assert "deletionTimestamp" not in now["metadata"]
            assert host.run("cat", f"{volume['spec']['local']['path']}/file") == "secret\n"


@pytest.mark.seed("DEL-4", "DEL-5", "CLN-6")
def test_failure_and_success_of_cleanings_are_tracked_and_after_a_failure_the_volume_stays(
    place: Place, here: pods.Here, host: Host
) -> None:
    name, gate = classes.BROKEN, classes.gate(place.folder, classes.BROKEN)
    with disks.linked(place, host, name) as device:
        try:
            old = _used_and_released(place, here, name, device)

            disk = disks.told(here, name, "CommandFailed")
            failed = disk["status"]["cleaning"]
            assert (disk["status"]["phase"], failed["state"]) == ("CleanFailed", "Failed")
            assert failed["volumeUID"] == old["metadata"]["uid"]
            assert "the controller is gone" in failed["error"]
            assert failed["nextAttemptAt"]
            assert [one["metadata"]["uid"] for one in disks.volumes(here, name)] == [old["metadata"]["uid"]]
            assert SECRET in disks.content(device)
            wire.eventually(lambda: "VolumeFailedDelete" in disks.events(here, old), "it is told", within=SECONDS)

            host.run("touch", gate)
            disks.offered(place, here, name, instead_of=old)
            done = disks.entry(here, name)["status"]["cleaning"]
            assert (done["state"], done["attempt"] > failed["attempt"]) == ("Verified", True)
            assert SECRET not in disks.content(device)
        finally:
            host.run("rm", "-f", gate)


@pytest.mark.seed("DEL-6", "DEL-7", "DEL-9")
def test_no_volume_is_created_and_no_second_cleaning_runs_while_a_volume_is_cleaned_even_if_it_is_deleted_by_hand(
    place: Place, here: pods.Here, host: Host
) -> None:
    name, gate = classes.SLOW, classes.gate(place.folder, classes.SLOW)
    with disks.linked(place, host, name) as device:
        second = f"{place.folder}/{name}/disk-again"
        try:
            old = _used_and_released(place, here, name, device)
            wire.eventually(lambda: disks.attempt(here, name), "the cleaning has begun", within=SECONDS)

            path = f"/api/v1/persistentvolumes/{old['metadata']['name']}"
            here.api.merge(path, {"metadata": {"labels": {"looked": "at"}}})
            here.api.send("DELETE", path)
            host.run("ln", "-s", str(device), second)
            disks.told(here, name, "DuplicateDevice", entry_name="disk-again")

            assert [one["metadata"]["uid"] for one in disks.volumes(here, name)] == [old["metadata"]["uid"]]
            assert disks.entry(here, name)["status"]["phase"] == "Cleaning"
            assert SECRET in disks.content(device)
            host.run("touch", gate)
            disks.offered(place, here, name, instead_of=old)
            assert SECRET not in disks.content(device)
            assert host.run("cat", classes.starts(place.folder, name)).split() == ["started"]
        finally:
            host.run("rm", "-f", gate, second)


# -- what cleaning must never do ---------------------------------------------------------------------------------------


@pytest.mark.seed("CLN-7", "DEL-4")
def test_device_that_was_put_in_the_place_of_the_released_one_is_not_wiped(
    place: Place, here: pods.Here, host: Host
) -> None:
    name = "e2e-swapped"
    link = f"{place.folder}/{name}/disk"
    with disks.linked(place, host, name) as device, place.disk(16 * MIB) as other:
        _write(other)
        old = disks.offered(place, here, name)
        claim = disks.take(here, old)
        _write(device)
        host.run("ln", "-sfn", str(other), link)
        disks.told(here, name, "IdentityChanged")

        disks.give_back(here, claim)
        wire.eventually(lambda: _cleaning(here, name).get("reason") == "IdentityChanged", "refused", within=SECONDS)
        assert SECRET in disks.content(other)
        assert SECRET in disks.content(device)
        assert [one["metadata"]["uid"] for one in disks.volumes(here, name)] == [old["metadata"]["uid"]]

        host.run("ln", "-sfn", str(device), link)
        disks.offered(place, here, name, instead_of=old)
        assert SECRET not in disks.content(device)
        assert SECRET in disks.content(other)


@pytest.mark.seed("CLN-5", "DEL-4")
def test_drive_that_cannot_erase_itself_is_left_as_it_is_and_its_volume_stays(
    place: Place, here: pods.Here, host: Host
) -> None:
    name = "e2e-hdparm"
    with disks.linked(place, host, name) as device:
        old = _used_and_released(place, here, name, device)

        disk = disks.told(here, name, "NotSupported")

        assert disk["status"]["cleaning"]["method"] == ["hdparm", "normal"]
        assert SECRET in disks.content(device)
        assert [one["metadata"]["uid"] for one in disks.volumes(here, name)] == [old["metadata"]["uid"]]


def _used_and_released(place: Place, here: pods.Here, name: str, device: Any) -> Any:
    """The volume of a device that somebody has written to and given back."""
    volume = disks.offered(place, here, name)
    claim = disks.take(here, volume)
    _write(device)
    disks.give_back(here, claim)
    return volume


def _write(device: Any) -> None:
    # Not at its beginning, where a cleaning that runs a command puts a mark of its own first.
    with device.open("r+b") as file:
        file.seek(8 * MIB)
        file.write(SECRET)


def _cleaning(here: pods.Here, name: str) -> dict[str, Any]:
    return dict(disks.entry(here, name)["status"].get("cleaning") or {})


def _judged(here: pods.Here, entry: str) -> dict[str, Any] | None:
    """The status of an entry once something was said about it."""
    status = (disks.entry(here, LIST, entry) or {}).get("status", {})
    return status if status.get("reason") else None
