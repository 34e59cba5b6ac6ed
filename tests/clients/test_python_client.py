# mypy: ignore-errors
# The stubs of the client call nearly every field optional.
"""The official Python client, unchanged: typed calls, watches, informer, dynamic client, leader election."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.dynamic import DynamicClient
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from tests.contract import builders, custom, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

from kubernetes import client, config, utils, watch
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.filterwarnings("default")
"""The client has warnings of its own, which are not ours to judge."""


@pytest.fixture
def connection(target: wire.Target) -> Iterator[client.ApiClient]:
    made = config.new_client_from_config(str(target.kubeconfig))
    yield made
    made.close()


@pytest.fixture
def core(connection: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(connection)


def _config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


@pytest.fixture
def swept(api: Api, space: Space) -> Iterator[Space]:
    """The namespace, emptied at the end of what went past our own client."""
    yield space
    for path in (
        space.core("configmaps"),
        space.core("secrets"),
        space.of("apps/v1", "deployments"),
        space.of("coordination.k8s.io/v1", "leases"),
    ):
        api.send("DELETE", path)


def test_life_of_an_object(core: client.CoreV1Api, swept: Space) -> None:
    made = core.create_namespaced_config_map(swept.name, _config_map("one", a="1"))
    assert made.metadata.uid
    made.data["b"] = "2"
    replaced = core.replace_namespaced_config_map("one", swept.name, made)
    assert replaced.data == {"a": "1", "b": "2"}
    with pytest.raises(client.ApiException) as conflict:
        core.replace_namespaced_config_map("one", swept.name, made)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    patched = core.patch_namespaced_config_map("one", swept.name, {"data": {"a": None}})
    assert patched.data == {"b": "2"}
    names = [item.metadata.name for item in core.list_namespaced_config_map(swept.name).items]
    assert "one" in names
    core.delete_namespaced_config_map("one", swept.name)
    with pytest.raises(client.ApiException) as missing:
        core.read_namespaced_config_map("one", swept.name)
    assert missing.value.status == 404


def test_volumes_keep_their_types(core: client.CoreV1Api, api: Api) -> None:
    name = builders.unique("volume")
    api.created.append(f"/api/v1/persistentvolumes/{name}")
    made = core.create_persistent_volume(builders.local_volume(name))
    assert made.spec.local.path == "/mnt/disks/ssd1"
    assert made.spec.node_affinity.required.node_selector_terms[0].match_expressions[0].values == ["node-1"]
    assert made.metadata.creation_timestamp.tzinfo is not None
    assert made.status.phase in ("Pending", "Available")


def test_pages(core: client.CoreV1Api, swept: Space) -> None:
    for index in range(3):
        core.create_namespaced_secret(swept.name, client.V1Secret(metadata=client.V1ObjectMeta(name=f"s{index}")))
    first = core.list_namespaced_secret(swept.name, limit=2)
    assert (len(first.items), first.metadata.remaining_item_count) == (2, 1)
    rest = core.list_namespaced_secret(swept.name, limit=2, _continue=first.metadata._continue)
    assert [item.metadata.name for item in rest.items] == ["s2"]


def test_server_side_apply(core: client.CoreV1Api, swept: Space) -> None:
    body = builders.config_map("one", data={"a": "1"})
    made = core.patch_namespaced_config_map(
        "one",
        swept.name,
        body,
        field_manager="alice",
        _content_type="application/apply-patch+yaml",
    )
    assert made.metadata.managed_fields[0].operation == "Apply"


def test_watch_stream(core: client.CoreV1Api, swept: Space) -> None:
    version = core.list_namespaced_secret(swept.name).metadata.resource_version
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="one"))
    core.create_namespaced_secret(swept.name, secret)
    core.patch_namespaced_secret("one", swept.name, {"stringData": {"a": "1"}})
    core.delete_namespaced_secret("one", swept.name)
    stream = watch.Watch()
    seen: list[str] = []
    for event in stream.stream(core.list_namespaced_secret, swept.name, resource_version=version, timeout_seconds=100):
        seen.append(event["type"])
        if len(seen) == 3:
            stream.stop()
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


def test_informer_follows_the_namespace(core: client.CoreV1Api, swept: Space) -> None:
    core.create_namespaced_secret(swept.name, client.V1Secret(metadata=client.V1ObjectMeta(name="before")))
    seen: list[tuple[str, str]] = []
    changed = threading.Condition()

    def record(kind: str) -> Any:
        def handler(secret: Any) -> None:
            with changed:
                seen.append((kind, secret.metadata.name))
                changed.notify_all()

        return handler

    def saw(kind: str, name: str) -> None:
        with changed:
            assert changed.wait_for(lambda: (kind, name) in seen, timeout=PATIENCE_SECONDS), seen

    # A resync period ends a quiet watch, so that stop() does not have to wait for the server.
    informer = SharedInformer(core.list_namespaced_secret, namespace=swept.name, resync_period=1)
    for kind in (ADDED, MODIFIED, DELETED):
        informer.add_event_handler(kind, record(kind))
    informer.start()
    try:
        saw(ADDED, "before")
        core.create_namespaced_secret(swept.name, client.V1Secret(metadata=client.V1ObjectMeta(name="after")))
        saw(ADDED, "after")
        core.patch_namespaced_secret("after", swept.name, {"stringData": {"a": "1"}})
        saw(MODIFIED, "after")
        core.delete_namespaced_secret("before", swept.name)
        saw(DELETED, "before")
        wire.eventually(
            lambda: [item.metadata.name for item in informer.cache.list()] == ["after"],
            "the cache follows what is told",
        )
    finally:
        informer.stop()


def test_dynamic_client(connection: client.ApiClient, swept: Space) -> None:
    dynamic = DynamicClient(connection)
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    made = maps.create(body=builders.config_map("one", data={"a": "1"}), namespace=swept.name)
    assert made.data.a == "1"
    patched = maps.patch(
        body={"metadata": {"name": "one"}, "data": {"a": "2"}},
        namespace=swept.name,
        content_type=wire.MERGE_PATCH,
    )
    assert patched.data.a == "2"
    applied = maps.server_side_apply(
        body=builders.config_map("two", data={"b": "1"}), namespace=swept.name, field_manager="alice"
    )
    assert applied.metadata.name == "two"
    names = {item.metadata.name for item in maps.get(namespace=swept.name).items}
    assert {"one", "two"} <= names
    maps.delete(name="one", namespace=swept.name)


def test_dynamic_client_finds_custom_kinds(connection: client.ApiClient, api: Api, space: Space) -> None:
    kind = custom.Kind()
    custom.define(api, kind.definition())
    wire.eventually(lambda: api.send("GET", f"/apis/{kind.group}/v1").code == 200, "the group is discovered")
    widgets = DynamicClient(connection).resources.get(api_version=f"{kind.group}/v1", kind="Widget")
    made = widgets.create(body=kind.object(spec={"size": 2}), namespace=space.name)
    api.created.append(kind.path(space, "one"))
    assert made.spec.size == 2


def test_custom_objects(connection: client.ApiClient, api: Api, space: Space) -> None:
    kind = custom.Kind()
    custom.define(api, kind.definition())
    objects = client.CustomObjectsApi(connection)
    place = {"group": kind.group, "version": "v1", "namespace": space.name, "plural": kind.plural}
    objects.create_namespaced_custom_object(body=kind.object(spec={"size": 1}), **place)
    api.created.append(kind.path(space, "one"))
    assert [item["spec"] for item in objects.list_namespaced_custom_object(**place)["items"]] == [{"size": 1}]


def test_create_from_yaml(connection: client.ApiClient, swept: Space, tmp_path: Path) -> None:
    manifest = tmp_path / "all.yaml"
    manifest.write_text(yaml.safe_dump_all([builders.config_map("one"), builders.deployment("two")]))
    utils.create_from_yaml(connection, str(manifest), namespace=swept.name)
    assert client.AppsV1Api(connection).read_namespaced_deployment("two", swept.name).spec.replicas == 1


def test_version_and_groups(connection: client.ApiClient) -> None:
    assert client.VersionApi(connection).get_code().major == "1"
    groups = {group.name for group in client.ApisApi(connection).get_api_versions().groups}
    assert {"apps", "storage.k8s.io"} <= groups


def test_events_and_leases_take_times(connection: client.ApiClient, core: client.CoreV1Api, swept: Space) -> None:
    leases = client.CoordinationV1Api(connection)
    made = leases.create_namespaced_lease(swept.name, builders.lease("one"))
    assert made.spec.holder_identity == "me"
    listed = core.list_namespaced_event(swept.name, field_selector="involvedObject.kind=Pod")
    assert listed.items == []


def test_only_one_candidate_leads(target: wire.Target, swept: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    # The lock makes its own client from the default configuration of the process.
    default = client.Configuration()
    config.load_kube_config(str(target.kubeconfig), client_configuration=default)
    monkeypatch.setattr(client.Configuration, "_default", default)

    def candidate(name: str) -> leaderelection.LeaderElection:
        return leaderelection.LeaderElection(
            electionconfig.Config(
                LeaseLock("leader", swept.name, name),
                lease_duration=17,
                renew_deadline=15,
                retry_period=5,
                onstarted_leading=lambda: None,
                onstopped_leading=lambda: None,
            )
        )

    alice, bob = candidate("alice"), candidate("bob")
    assert alice.try_acquire_or_renew() is True
    assert bob.try_acquire_or_renew() is False
    assert alice.try_acquire_or_renew() is True
    lease = client.CoordinationV1Api().read_namespaced_lease("leader", swept.name)
    assert lease.spec.holder_identity == "alice"
