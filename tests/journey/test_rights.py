"""A manager whose requests fail, for want of a right: it remembers nothing as done that is not, and goes on later."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.contract import wire
from tests.journey.place import Place
from tests.journey.test_drop_in import ca_of

from localpv.api import roles, well_known
from localpv.api.kinds.localdisk import Phase
from localpv.api.kinds.meta import resource_of
from localpv.client import client as clients
from localpv.client import config
from localpv.client.client import Client
from localpv.client.config import Connection
from localpv.client.credentials import Fixed

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Managing:
    """A service account with the rights of a manager, some of which it may lose."""

    client: Client
    name: str
    cluster_roles: Any
    asking: wire.Api
    """The same account, for questions about its rights."""

    async def may(self, *, without: str = "") -> None:
        """Have all rights, or all but one verb on volumes; a server acts on them a moment after they were written."""
        rules = [_without(each, without) for each in roles.manager()]
        await self.cluster_roles.patch(self.name, {"rules": rules})

        def is_allowed(verb: str) -> bool:
            asked = {"resourceAttributes": {"verb": verb, "resource": "persistentvolumes"}}
            return bool(self.asking.post(REVIEWS, {"spec": asked})["status"]["allowed"])

        wire.eventually(
            lambda: all(is_allowed(verb) is (verb != without) for verb in ("create", "delete")),
            "the new rights are in force",
        )


def _without(rule: Any, verb: str) -> Any:
    if rule["resources"] != ["persistentvolumes"]:
        return rule
    return {**rule, "verbs": [each for each in rule["verbs"] if each != verb]}


@pytest.fixture
async def managing(place: Place, kubeconfig: Path) -> AsyncIterator[Managing]:
    async with _account(place, kubeconfig) as made:
        yield made


@asynccontextmanager
async def _account(place: Place, kubeconfig: Path) -> AsyncIterator[Managing]:
    name = f"manager-{place.suffix}"
    accounts = place.client.untyped(resource_of("ServiceAccount"))
    cluster_roles = place.client.untyped(resource_of("ClusterRole", well_known.RBAC_GROUP))
    bindings = place.client.untyped(resource_of("ClusterRoleBinding", well_known.RBAC_GROUP))
    await accounts.create({"metadata": {"name": name, "namespace": "default"}})
    await cluster_roles.create(roles.role(name, *roles.manager()))
    await bindings.create(roles.binding(name, name, roles.service_account_subject("default", name)))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await accounts.call(name, "token", request, "default")
    tls = ssl.create_default_context()
    tls.load_verify_locations(cadata=ca_of(kubeconfig))
    url = config.load(kubeconfig).url
    token = answer["status"]["token"]
    connection = Connection(url=url, tls=tls, credentials=Fixed(token))
    asking = wire.Api(wire.read_kubeconfig(kubeconfig), token)
    try:
        async with clients.connect(connection, component="manager") as client:
            yield Managing(client, name, cluster_roles, asking)
    finally:
        asking.close()
        await bindings.delete(name)
        await cluster_roles.delete(name)
        await accounts.delete(name, "default")


@pytest.mark.seed("DSC-7")
async def test_directory_whose_volume_could_not_be_created_is_not_remembered_as_done(
    place: Place, managing: Managing
) -> None:
    await place.set_up()
    await managing.may(without="create")
    async with place.managed(client=managing.client):
        disk = await place.finds()
        await place.until_told(disk.key, "VolumeFailedCreate")
        refused = await place.disks.get(disk.key)
        assert refused.spec.volume is None or not refused.spec.volume.uid
        assert await place.own_volumes() == []

        await managing.may()
        volume = await place.published(disk.key)
        assert [each.metadata.uid for each in await place.own_volumes()] == [volume.metadata.uid]


@pytest.mark.seed("DEL-3")
async def test_volume_that_could_not_be_deleted_is_not_forgotten_and_its_deletion_is_tried_again(
    place: Place, managing: Managing
) -> None:
    await place.set_up()
    await managing.may(without="delete")
    async with place.managed(client=managing.client):
        disk = await place.finds()
        first = await place.published(disk.key)
        await place.claims(first.key)
        await place.phase(first.key, "Released")
        await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
        await place.cleans(disk.key)
        await place.until_told(first.key, "VolumeFailedDelete")
        (still,) = await place.own_volumes()
        assert (still.metadata.uid, still.metadata.deleting) == (first.metadata.uid, False)
        kept = await place.disks.get(disk.key)
        assert kept.spec.volume is not None and kept.spec.volume.uid == first.metadata.uid

        await managing.may()
        await place.until_gone(first.key)
        await place.until_disk(disk.key, lambda disk: disk.spec.volume is None)
        await place.reports(disk.key, phase=Phase.AVAILABLE, eligible=True)
        second = await place.published(disk.key)
        assert second.metadata.uid != first.metadata.uid
