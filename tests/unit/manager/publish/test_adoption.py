"""Volumes of the classic provisioner get our label."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.manager.worlds import settings

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.config.settings import Configuration
from localpv.disk import labels
from localpv.manager.publish import adoption, ownership
from localpv.manager.volumes import ApiVolumes
from localpv.runtime.clock import SystemClock
from localpv.testing.api import FakeApi

UID = "11111111-2222-3333-4444-555555555555"
VOLUMES = "/api/v1/persistentvolumes"
CONFIGURATION = Configuration(classes={"fast": settings()})


def a_volume(
    *, maker: str = f"local-volume-provisioner-n1-{UID}", path: str = "/mnt/disks/a", name: str = "fast"
) -> Any:
    annotations = {well_known.PROVISIONED_BY: maker} if maker else {}
    return {"metadata": {"annotations": annotations}, "spec": {"storageClassName": name, "local": {"path": path}}}


@pytest.mark.parametrize(
    ("volume", "label"),
    [
        (a_volume(), "n1"),
        (a_volume(maker="local-volume-provisioner-n2"), "n2"),
        (a_volume(maker=""), None),
        (a_volume(maker="ebs.csi.aws.com"), None),
        (a_volume(name="slow"), None),
        (a_volume(path="/mnt/disks2/a"), None),
        (a_volume(path="/mnt/disks/a/b"), None),
        ({"spec": {"storageClassName": "fast"}}, None),
    ],
)
@pytest.mark.seed("DSC-11")
async def test_only_volumes_of_a_provisioner_in_a_configured_directory_get_a_label(volume: Any, label: str) -> None:
    api = FakeApi()
    api.put(f"{VOLUMES}/pv", volume)
    await adopt(api)
    assert api.objects[f"{VOLUMES}/pv"]["metadata"].get("labels") == ({labels.NODE: label} if label else None)


async def test_volume_is_labelled_and_held_in_one_write() -> None:
    api = FakeApi()
    api.put(f"{VOLUMES}/pv", {**a_volume(), "metadata": {**a_volume()["metadata"], "finalizers": ["others/hold"]}})
    await adopt(api)
    meta = api.objects[f"{VOLUMES}/pv"]["metadata"]
    assert (meta["labels"], meta["finalizers"]) == ({labels.NODE: "n1"}, ["others/hold", labels.FINALIZER])
    assert [request.method for request in api.requests].count("PATCH") == 1, "at no moment it is known and not held"


async def test_volume_that_may_not_be_changed_is_followed_as_it_is() -> None:
    api = FakeApi()
    api.put(f"{VOLUMES}/pv", a_volume())
    client = Client(api, field_manager="test")
    volumes = ApiVolumes(client, informers=InformerFactory(client, clock=SystemClock()), clock=SystemClock())
    volumes.holds = False
    objects = client.objects(PersistentVolume)
    page = [each async for each in objects.pages()]
    api.failures = [errors.Forbidden("no")]
    await volumes.take_over(page[0].items[0], "n1")
    assert "finalizers" not in api.objects[f"{VOLUMES}/pv"]["metadata"]
    assert volumes.seen("pv") is not None


async def test_provisioner_of_one_node_leaves_the_volumes_of_others_alone() -> None:
    api = FakeApi()
    api.put(f"{VOLUMES}/own", a_volume())
    api.put(f"{VOLUMES}/others", a_volume(maker=f"local-volume-provisioner-n1-b-{UID}"))
    await adopt(api, node="n1")
    assert "labels" in api.objects[f"{VOLUMES}/own"]["metadata"]
    assert "labels" not in api.objects[f"{VOLUMES}/others"]["metadata"]


async def test_only_volumes_without_our_label_are_asked_for() -> None:
    api = FakeApi()
    await adopt(api)
    assert api.requests[0].query["labelSelector"] == f"!{labels.NODE}"


@pytest.mark.parametrize(
    ("annotation", "node"),
    [
        (f"local-volume-provisioner-n1-{UID}", "n1"),
        ("local-volume-provisioner-n1", "n1"),
        ("local-volume-provisioner-n1-b", "n1-b"),
        (f"local-volume-provisioner-{UID}", UID),
        ("other", ""),
        ("", ""),
    ],
)
def test_node_is_read_from_the_annotation(annotation: str, node: str) -> None:
    assert ownership.maker(annotation) == node


async def adopt(api: FakeApi, node: str = "") -> None:
    client = Client(api, field_manager="test")
    volumes = ApiVolumes(client, informers=InformerFactory(client, clock=SystemClock()), clock=SystemClock())
    objects = client.objects(PersistentVolume)
    await adoption.adopt_all(objects, volumes=volumes, configuration=CONFIGURATION, node=node)
