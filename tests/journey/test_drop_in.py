"""Taking over from the classic provisioner: its volumes, its names, its rights, and what is older still."""

from __future__ import annotations

import base64
import json
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.journey.place import Place

from localpv.api import node_selector, roles, volume_affinity, well_known
from localpv.api.kinds.localdisk import (
    DiskIdentity,
    DiskKind,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
    Phase,
)
from localpv.api.kinds.meta import ObjectMeta, resource_of
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client import client as clients
from localpv.client import config
from localpv.client.client import Client
from localpv.client.config import Connection
from localpv.client.credentials import Fixed
from localpv.disk import labels
from localpv.disk.records.folder import FolderRecords
from localpv.manager import volumes as offers
from localpv.manager.migrate import affinity
from localpv.manager.publish import names as publish_names


def a_classic_volume(place: Place, node_uid: str, *, name: str = "", path: str = "/mnt/disks/disk1") -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [place.node]}]}]
    return {
        "metadata": {
            "name": name or publish_names.volume_name("disk1", place.node, place.storage_class),
            "annotations": {well_known.PROVISIONED_BY: f"local-volume-provisioner-{place.node}-{node_uid}"},
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": place.storage_class,
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }


@pytest.mark.seed("DSC-2", "DSC-11")
async def test_volume_of_the_classic_provisioner_is_taken_over_as_it_is(place: Place) -> None:
    await place.set_up()
    volumes = place.client.untyped(PersistentVolume.resource)
    # The Node has been registered anew since.
    made = await volumes.create(a_classic_volume(place, str(uuid.uuid4())))
    await place.claims(made["metadata"]["name"])
    async with place.managed():
        disk = await place.finds()
        taken = await place.until_disk(disk.key, lambda disk: disk.spec.volume is not None and disk.spec.volume.uid)
        assert taken.spec.volume.uid == made["metadata"]["uid"]
        (volume,) = await place.own_volumes()
        assert volume.metadata.labels == {labels.NODE: place.node}
        assert volume.status.phase == "Bound"
        assert offers.is_held(volume)


async def test_name_that_another_disk_has_gets_a_longer_hash(place: Place) -> None:
    await place.set_up()
    volumes = place.client.untyped(PersistentVolume.resource)
    other = await volumes.create(a_classic_volume(place, "", path="/mnt/elsewhere/disk1"))
    async with place.managed():
        disk = await place.finds()
        volume = await place.published(disk.key)
        assert volume.key == publish_names.long_volume_name("disk1", place.node, place.storage_class)
        untouched = await volumes.get(other["metadata"]["name"])
        assert "labels" not in untouched["metadata"]


@pytest.mark.seed("AFF-6")
async def test_volume_with_the_alpha_annotation_gets_the_field(place: Place) -> None:
    volumes = place.client.untyped(PersistentVolume.resource)
    volume = a_classic_volume(place, "", name=f"old-{place.suffix}")
    selector = volume["spec"].pop("nodeAffinity")["required"]
    volume["metadata"]["annotations"][volume_affinity.ANNOTATION] = json.dumps({node_selector.REQUIRED: selector})
    # Servers of today do not take a local volume without the field; they keep those they have.
    volume["spec"]["hostPath"] = volume["spec"].pop("local")
    await volumes.create(volume)

    found = [each async for each in affinity.survey(volumes) if each.name == f"old-{place.suffix}"]
    assert len(found) == 1 and isinstance(found[0], affinity.Change)
    assert await affinity.apply(volumes, found[0]) is None
    migrated = await volumes.get(f"old-{place.suffix}")
    assert migrated["spec"]["nodeAffinity"] == {"required": selector}
    assert volume_affinity.ANNOTATION not in migrated["metadata"]["annotations"]
    assert [each async for each in affinity.survey(volumes) if each.name == f"old-{place.suffix}"] == []


async def test_drop_in_with_the_rights_of_the_classic_provisioner_serves_its_node(
    place: Place, kubeconfig: Path, tmp_path: Path
) -> None:
    await place.set_up()
    volumes = place.client.untyped(PersistentVolume.resource)
    classic = await volumes.create(a_classic_volume(place, str(uuid.uuid4())))
    await place.phase(classic["metadata"]["name"], "Available")
    records = FolderRecords(tmp_path / "records")
    records.open()
    async with (
        as_provisioner(place, kubeconfig) as client,
        place.managed(client=client, records=records, node=place.node),
    ):
        names = [await put_in_folder(place, records, entry) for entry in ("disk1", "disk2")]

        async def offered() -> list[OfferedVolume | None]:
            return [disk.spec.volume for name in names if (disk := await records.get(name)) is not None]

        async def are_published() -> bool:
            return all(volume is not None and volume.uid for volume in await offered())

        await place.until(are_published)
        adopted, fresh = await offered()
        assert adopted is not None and fresh is not None
        assert adopted.uid == classic["metadata"]["uid"]
        both = await place.own_volumes()
        assert len(both) == 2
        assert not any(offers.is_held(volume) for volume in both), "who cannot let go does not hold"

        async def is_told() -> bool:
            return "VolumePublished" in await place.told(fresh.name)

        await place.until(is_told)

        async def is_warned() -> bool:
            return "VolumesNotHeld" in await place.told(place.node)

        await place.until(is_warned)
    records.close()


async def put_in_folder(place: Place, records: FolderRecords, entry: str) -> str:
    spec = LocalDiskSpec(
        node_name=place.node,
        storage_class_name=place.storage_class,
        entry=entry,
        path=f"/mnt/disks/{entry}",
        volume_mode="Filesystem",
    )
    name = publish_names.disk_name(place.node, place.storage_class, entry)
    made = await records.create(LocalDisk(metadata=ObjectMeta(name=name), spec=spec))
    status = LocalDiskStatus(
        phase=Phase.AVAILABLE,
        eligible=True,
        kind=DiskKind.DIRECTORY,
        capacity_bytes=1 << 30,
        identity=DiskIdentity(serial=entry),
    )
    await records.write_status(made, status)
    return name


@asynccontextmanager
async def as_provisioner(place: Place, kubeconfig: Path) -> AsyncIterator[Client]:
    """A client with a service account that has the classic rights and no others."""
    name = f"provisioner-{place.suffix}"
    accounts = place.client.untyped(resource_of("ServiceAccount"))
    cluster_roles = place.client.untyped(resource_of("ClusterRole", well_known.RBAC_GROUP))
    bindings = place.client.untyped(resource_of("ClusterRoleBinding", well_known.RBAC_GROUP))
    await accounts.create({"metadata": {"name": name, "namespace": "default"}})
    classic = [rule for rule in roles.provisioner() if rule != roles.holding()]
    await cluster_roles.create(roles.role(name, *classic))
    subject = roles.service_account_subject("default", name)
    await bindings.create(roles.binding(name, name, subject))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await accounts.call(name, "token", request, "default")
    administrator = config.load(kubeconfig)
    tls = ssl.create_default_context()
    tls.load_verify_locations(cadata=ca_of(kubeconfig))
    connection = Connection(url=administrator.url, tls=tls, credentials=Fixed(answer["status"]["token"]))
    try:
        async with clients.connect(connection, component="provisioner") as client:
            yield client
    finally:
        await bindings.delete(name)
        await cluster_roles.delete(name)
        await accounts.delete(name, "default")


def ca_of(kubeconfig: Path) -> str:
    import yaml

    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    if "certificate-authority" in cluster:
        return (kubeconfig.parent / cluster["certificate-authority"]).read_text()
    return base64.b64decode(cluster["certificate-authority-data"]).decode()
