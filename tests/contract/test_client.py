"""Our client against the server under test, over a network that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import engine_process
from tests.contract import builders, wire
from tests.contract.spaces import Space

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap, Event, Lease, ObjectReference
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import (
    LabelSelector,
    LocalVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    TopologyRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
)
from localpv.api.resources import BUILT_IN
from localpv.client import client as clients
from localpv.client import config
from localpv.client.client import Client
from localpv.client.config import Connection
from localpv.client.http import HttpTransport
from localpv.client.informer import SharedInformer
from localpv.client.lease import Election, Ended, Terms
from localpv.client.objects import Patch, Selection
from localpv.client.transport import Answer, Request, Transport
from localpv.client.watching import Changed, Deleted, Synced
from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import SystemClock
from localpv.testing.waiting import PATIENCE_SECONDS, eventually

CONFIG_MAPS = next(resource for resource in BUILT_IN if resource.kind == "ConfigMap")
POD = next(resource for resource in BUILT_IN if resource.kind == "Pod")
QUICK = Backoff(first=0.01, most=0.1)


@pytest.fixture
def connection(target: wire.Target) -> Connection:
    return config.load(target.kubeconfig)


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[Client]:
    async with clients.connect(connection, component="contract") as connected:
        yield connected


class Cable:
    """A TCP proxy in front of the server: its connections can be cut, and new ones refused."""

    def __init__(self, connection: Connection) -> None:
        server = urllib.parse.urlsplit(connection.url)
        self._host, self._port = server.hostname, server.port
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.unplugged = False
        self.cuts = 0

    @asynccontextmanager
    async def plugged(self, connection: Connection) -> AsyncIterator[Connection]:
        """The same server, reached through the cable."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield dataclasses.replace(connection, url=f"https://127.0.0.1:{port}")
        finally:
            server.close()
            self.cut()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Break all connections without a goodbye."""
        self.cuts += bool(self._ends)
        for end in self._ends:
            end.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.unplugged:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._ends |= ends
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def following(cache: SharedInformer[Any]) -> AsyncIterator[None]:
    """The cache at work, loaded; a mistake in it fails the test."""
    task = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await cache.wait_synced()
        yield
    finally:
        failed = task.done()
        task.cancel()
        await asyncio.wait({task})
        if failed:
            task.result()


def a_config_map(space: Space, name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=space.name), data=data)


async def test_typed_object_is_created_read_changed_and_deleted(client: Client, space: Space) -> None:
    maps = client.objects(ConfigMap)
    made = await maps.create(a_config_map(space, "one", a="1"))
    assert made.metadata.uid and made.data == {"a": "1"}
    assert await maps.get("one", space.name) == made

    changed = await maps.patch("one", {"data": {"b": "2"}}, space.name)
    assert changed.data == {"a": "1", "b": "2"}
    changed = await maps.patch("one", [{"op": "remove", "path": "/data/a"}], space.name, how=Patch.JSON)
    assert changed.data == {"b": "2"}
    changed = await maps.patch("one", {"data": {"b": None, "c": "3"}}, space.name, how=Patch.STRATEGIC)
    assert changed.data == {"c": "3"}

    assert await maps.delete("one", space.name) is None
    assert await maps.find("one", space.name) is None
    with pytest.raises(errors.NotFound):
        await maps.get("one", space.name)


async def test_volume_with_every_typed_field_is_accepted(client: Client) -> None:
    volumes = client.objects(PersistentVolume)
    name = builders.unique("client")
    term = NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=("node-1",)),)
    )
    wanted = PersistentVolume(
        metadata=ObjectMeta(name=name, labels={"localpv.dev/node": "node-1"}, annotations={"a": "b"}),
        spec=PersistentVolumeSpec(
            capacity={"storage": "10Gi"},
            access_modes=("ReadWriteOnce",),
            persistent_volume_reclaim_policy="Delete",
            storage_class_name="contract",
            mount_options=("noatime",),
            volume_mode="Filesystem",
            node_affinity=VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,))),
            local=LocalVolumeSource(path="/mnt/disks/one", fs_type="ext4"),
        ),
    )
    made = await volumes.create(wanted)
    try:
        assert made.spec == wanted.spec
        status = await volumes.patch(name, {"status": {"phase": "Available"}}, subresource="status")
        assert status.status.phase == "Available"
    finally:
        waiting = await volumes.delete(name, uid=made.metadata.uid)
        if waiting is not None:
            assert waiting.metadata.deleting
            # Where a controller takes the finalizer away, it may be quicker than we are.
            with contextlib.suppress(errors.NotFound):
                await volumes.patch(name, {"metadata": {"finalizers": None}})


async def test_typed_claim_and_event_are_accepted(client: Client, space: Space) -> None:
    claims, events = client.objects(PersistentVolumeClaim), client.objects(Event)
    claim = await claims.create(
        PersistentVolumeClaim(
            metadata=ObjectMeta(name="one", namespace=space.name),
            spec=PersistentVolumeClaimSpec(
                access_modes=("ReadWriteOnce",),
                resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
                selector=LabelSelector(match_labels={"a": "b"}),
                storage_class_name="",
            ),
        )
    )
    assert (claim.spec.storage_class_name, claim.spec.volume_mode) == ("", "Filesystem")
    about = ObjectReference(
        kind="PersistentVolumeClaim", namespace=space.name, name="one", uid=claim.metadata.uid, api_version="v1"
    )
    metadata = ObjectMeta(generate_name="one.", namespace=space.name)
    event = await events.create(
        Event(metadata=metadata, involved_object=about, reason="Tested", message="m", type="Normal", count=1)
    )
    assert event.metadata.name.startswith("one.")
    own = Selection(namespace=space.name, fields=f"involvedObject.uid={claim.metadata.uid},reason=Tested")
    assert [each.metadata.name for each in (await events.list(own)).items] == [event.metadata.name]


async def test_typed_class_is_accepted_and_keeps_its_defaults(client: Client) -> None:
    classes = client.objects(StorageClass)
    name = builders.unique("client")
    metadata = ObjectMeta(name=name)
    topology = TopologySelectorTerm(
        match_label_expressions=(TopologyRequirement(key="kubernetes.io/hostname", values=("node-1",)),)
    )
    made = await classes.create(
        StorageClass(
            metadata=metadata,
            provisioner="kubernetes.io/no-provisioner",
            volume_binding_mode="WaitForFirstConsumer",
            allowed_topologies=(topology,),
        )
    )
    assert await classes.delete(name) is None
    assert (made.reclaim_policy, made.volume_binding_mode) == ("Delete", "WaitForFirstConsumer")
    assert made.allowed_topologies == (topology,)


async def test_patch_with_an_old_version_is_a_conflict_and_keeps_unknown_fields(client: Client, space: Space) -> None:
    pods, whole = client.objects(Pod), client.untyped(POD)
    await whole.create(builders.pod("one", namespace=space.name))
    seen = await pods.get("one", space.name)
    locked = {"metadata": {"resourceVersion": seen.metadata.resource_version, "labels": {"a": "b"}}}
    await pods.patch("one", locked, space.name)
    with pytest.raises(errors.Conflict):
        await pods.patch("one", locked, space.name)
    now = await whole.get("one", space.name)
    # Typed pods know nothing of this field, and yet it is still there.
    assert now["spec"]["terminationGracePeriodSeconds"] == 30
    assert now["metadata"]["labels"] == {"a": "b"}


async def test_untyped_object_is_replaced_unless_it_has_changed(client: Client, space: Space) -> None:
    maps = client.untyped(CONFIG_MAPS)
    made = await maps.create(builders.config_map("one", namespace=space.name, data={"a": "1"}))
    await maps.update(made | {"data": {"a": "2"}})
    with pytest.raises(errors.Conflict):
        await maps.update(made | {"data": {"a": "3"}})
    assert (await maps.get("one", space.name))["data"] == {"a": "2"}


async def test_applied_fields_have_one_owner(client: Client, space: Space) -> None:
    maps = client.objects(ConfigMap)
    await maps.apply(a_config_map(space, "one", a="1"))
    with pytest.raises(errors.Conflict):
        await maps.apply(a_config_map(space, "one", a="2"), field_manager="other")
    forced = await maps.apply(a_config_map(space, "one", a="2"), field_manager="other", force=True)
    assert forced.data == {"a": "2"}


async def test_errors_are_of_the_kind_the_server_meant(client: Client, space: Space) -> None:
    maps = client.objects(ConfigMap)
    made = await maps.create(a_config_map(space, "one"))
    with pytest.raises(errors.AlreadyExists):
        await maps.create(a_config_map(space, "one"))
    with pytest.raises(errors.Invalid) as caught:
        await maps.create(a_config_map(space, "Not A Name"))
    assert caught.value.details["causes"][0]["field"] == "metadata.name"
    with pytest.raises(errors.Conflict):
        await maps.delete("one", space.name, uid="another")
    with pytest.raises(errors.Conflict):
        await maps.delete("one", space.name, resource_version="1")
    assert await maps.delete("one", space.name, uid=made.metadata.uid) is None


async def test_dry_run_changes_nothing(client: Client, space: Space) -> None:
    maps = client.objects(ConfigMap)
    assert (await maps.create(a_config_map(space, "one"), dry_run=True)).metadata.uid
    assert await maps.find("one", space.name) is None


async def test_list_in_pages_and_by_selection(client: Client, space: Space) -> None:
    maps = client.objects(ConfigMap)
    for number in range(7):
        labels = {"odd": "yes" if number % 2 else "no"}
        metadata = ObjectMeta(name=f"n{number}", namespace=space.name, labels=labels)
        await maps.create(ConfigMap(metadata=metadata))
    own = Selection(namespace=space.name, labels="odd")
    pages = [[each.metadata.name for each in page.items] async for page in maps.pages(own, size=3)]
    assert pages == [["n0", "n1", "n2"], ["n3", "n4", "n5"], ["n6"]]
    odd = await maps.list(Selection(namespace=space.name, labels="odd=yes"))
    assert [each.key for each in odd.items] == [f"{space.name}/n{number}" for number in (1, 3, 5)]
    one = await maps.list(Selection(namespace=space.name, fields="metadata.name=n2"))
    assert [each.metadata.name for each in one.items] == ["n2"]


async def test_pod_is_bound_through_its_subresource(client: Client, space: Space) -> None:
    pods = client.untyped(POD)
    await pods.create(builders.pod("one", namespace=space.name))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}, "target": {"name": "node-1"}}
    assert (await pods.call("one", "binding", binding, space.name))["status"] == "Success"
    assert (await client.objects(Pod).get("one", space.name)).spec.node_name == "node-1"


async def test_watch_tells_what_exists_then_what_changes(client: Client, space: Space) -> None:
    maps = client.objects(ConfigMap)
    own = Selection(namespace=space.name, fields="metadata.name=one")
    made = await maps.create(a_config_map(space, "one"))
    seen = []
    async with asyncio.timeout(PATIENCE_SECONDS), aclosing(maps.watch(own, initial_events=True)) as watch:
        async for event in watch:
            seen.append(type(event))
            match event:
                case Changed(obj) if obj == made:
                    pass
                case Synced():
                    await maps.patch("one", {"data": {"a": "1"}}, space.name)
                case Changed(obj):
                    assert obj.data == {"a": "1"}
                    await maps.delete("one", space.name)
                case Deleted():
                    break
    assert [each for each in seen if each in (Changed, Synced, Deleted)] == [Changed, Synced, Changed, Deleted]


@pytest.mark.parametrize("stream", [True, False])
async def test_cache_equals_the_server_whatever_happens_to_the_network(
    client: Client, connection: Connection, space: Space, stream: bool
) -> None:
    chance = random.Random(5)
    maps = client.objects(ConfigMap)
    selection = Selection(namespace=space.name, labels="kept=yes")
    cable = Cable(connection)
    async with cable.plugged(connection) as far, clients.connect(far, component="contract") as through:
        cache = SharedInformer(
            through.objects(ConfigMap), selection=selection, clock=SystemClock(), backoff=QUICK, stream=stream
        )
        mirror: dict[str, ConfigMap] = {}

        def follow(old: ConfigMap | None, new: ConfigMap | None) -> None:
            before = mirror.pop(new.key if new else old.key if old else "", None)
            assert before == old
            if new is not None:
                mirror[new.key] = new

        cache.add_event_handler(follow)
        async with following(cache):
            for step in range(120):
                await _random_change(maps, space, chance, step)
                if chance.random() < 0.1:
                    cable.cut()
            await _until_equal(cache, maps, selection)
            assert mirror == {each.key: each for each in cache.list()}
    assert cable.cuts > 3


async def _random_change(maps: clients.Objects[ConfigMap], space: Space, chance: random.Random, step: int) -> None:
    name = f"n{chance.randrange(12)}"
    kept = chance.choice(["yes", "yes", "no"])
    try:
        if chance.random() < 0.3:
            await maps.delete(name, space.name)
        else:
            await maps.patch(name, {"metadata": {"labels": {"kept": kept}}, "data": {"step": str(step)}}, space.name)
    except errors.NotFound:
        metadata = ObjectMeta(name=name, namespace=space.name, labels={"kept": kept})
        await maps.create(ConfigMap(metadata=metadata))


async def _until_equal(
    cache: SharedInformer[ConfigMap], maps: clients.Objects[ConfigMap], selection: Selection
) -> None:
    there = {each.key: each for each in (await maps.list(selection)).items}
    await eventually(lambda: {each.key: each for each in cache.list()} == there, what="the cache equals the server")


class Ageing:
    """A transport that forgets for so long that the server has forgotten too: it resumes from the first version."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.old = False
        self.resumed: list[str] = []

    async def request(self, request: Request) -> Answer:
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.resumed.append(request.query.get("resourceVersion", ""))
        if self.old and self.resumed[-1]:
            request = dataclasses.replace(request, query={**request.query, "resourceVersion": "1"})
            self.old = False
        return self._inner.stream(request)


async def test_cache_starts_over_when_the_server_has_forgotten(
    client: Client, connection: Connection, space: Space
) -> None:
    """From version 1 a server tells everything again or says 410; both must end in the same state."""
    maps = client.objects(ConfigMap)
    own = Selection(namespace=space.name, labels="test")
    await _labelled(maps, space, "stays")
    await _labelled(maps, space, "goes")
    cable = Cable(connection)
    async with cable.plugged(connection) as far, HttpTransport(far, component="contract") as through:
        ageing = Ageing(through)
        aged = Client(ageing, field_manager="contract").objects(ConfigMap)
        cache = SharedInformer(aged, selection=own, clock=SystemClock(), backoff=QUICK)
        async with following(cache):
            ageing.old = True
            cable.unplugged = True
            cable.cut()
            await maps.delete("goes", space.name)
            await _labelled(maps, space, "comes")
            cable.unplugged = False
            await _until_equal(cache, maps, own)
            assert not ageing.old


async def _labelled(maps: clients.Objects[ConfigMap], space: Space, name: str) -> None:
    metadata = ObjectMeta(name=name, namespace=space.name, labels={"test": "yes"})
    await maps.create(ConfigMap(metadata=metadata))


async def test_second_candidate_leads_after_the_first_lost_its_network(
    client: Client, connection: Connection, space: Space
) -> None:
    terms = Terms(lease_duration=2, renew_deadline=1.2, retry_period=0.2)
    clock = SystemClock()
    spans: dict[str, list[float]] = {"one": [], "two": []}

    def candidate(identity: str, over: Client) -> asyncio.Task[Ended]:
        async def work() -> None:
            spans[identity].append(time.monotonic())
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                spans[identity].append(time.monotonic())

        leases = over.objects(Lease)
        election = Election(leases, name="contract", namespace=space.name, identity=identity, clock=clock, terms=terms)
        return asyncio.create_task(election.lead(work))

    cable = Cable(connection)
    async with cable.plugged(connection) as far, clients.connect(far, component="one") as through:
        one = candidate("one", through)
        await eventually(lambda: spans["one"], what="the first leads")
        two = candidate("two", client)
        cable.unplugged = True
        cable.cut()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await one is Ended.LOST
        await eventually(lambda: spans["two"], what="the second leads")
        assert spans["one"][1] < spans["two"][0]
        lease = await client.objects(Lease).get("contract", space.name)
        assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("two", 1)
        two.cancel()
        await asyncio.wait({two})
        lease = await client.objects(Lease).get("contract", space.name)
        assert not lease.spec.holder_identity


@pytest.fixture
def own_engine(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[Path]:
    """Where an engine that this test may stop keeps its data."""
    if pytestconfig.getoption("--kubeconfig") is not None:
        pytest.skip("a server that is passed in cannot be restarted")
    yield tmp_path / "data"


async def test_watch_goes_on_across_a_restart_of_the_server(own_engine: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        with engine_process.running(data=own_engine) as engine:
            connection = config.load(engine.kubeconfig)
            listen = urllib.parse.urlsplit(connection.url).netloc
            client = await stack.enter_async_context(clients.connect(connection, component="contract"))
            volumes = client.objects(PersistentVolume)
            first = await client.untyped(PersistentVolume.resource).create(builders.local_volume("first"))
            cache = SharedInformer(volumes, clock=SystemClock(), backoff=QUICK)
            heard: list[tuple[str, str]] = []
            cache.add_event_handler(lambda old, new: heard.append((old.key if old else "", new.key if new else "")))
            await stack.enter_async_context(following(cache))
            version = cache.resource_version
        await eventually(lambda: cache.trouble, what="the cache notices that the server is gone")
        with engine_process.running(data=own_engine, listen=listen):
            await client.untyped(PersistentVolume.resource).create(builders.local_volume("second"))
            await eventually(lambda: cache.get("second"), what="the cache hears of the second volume")
            assert heard == [("", "first"), ("", "second")]
            assert int(cache.resource_version) > int(version)
            found = cache.get("first")
            assert found is not None and found.metadata.uid == first["metadata"]["uid"]
