"""One node with one disk, the programs over it, and a death at one chosen act.

An act is whatever changes the world: a write to the API server or to the records, or a piece of a disk that is wiped.
Between two acts a death makes no difference to anybody. Death comes before the act or right after it; nothing that the
process would have done later happens. Then another process takes its place, which remembers nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from tests.journey.crash_server import DISKS, STATUS, VOLUMES, Server

from localpv import errors
from localpv.agent.clean.cleaner import Cleaner
from localpv.agent.clean.executor import Target
from localpv.agent.clean.paths import Place
from localpv.agent.clean.plans import Plan
from localpv.agent.clean.reconciler import CleaningScope
from localpv.agent.discover.discovery import Discovery, HostView
from localpv.api.kinds.localdisk import CleanOrder, DiskKind, LocalDisk, LocalDiskSpec, LocalDiskStatus, VolumeMode
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.client.transport import Answer, Request
from localpv.config.settings import ClassSettings, Configuration, Reclaim
from localpv.disk.records import Records
from localpv.disk.records.api import ApiRecords
from localpv.disk.records.folder import FolderRecords
from localpv.host.model.identity import Identity
from localpv.host.workers import Report, Workers
from localpv.manager.manager import Manager, ManagerScope
from localpv.runtime.clock import SystemClock, Timer
from localpv.testing.fake_host import FakeDevices, FakeFolders, FakeMachine, FakeMounts, FakeUevents
from localpv.testing.fake_volume_host import FakeMarks
from localpv.testing.waiting import PATIENCE_SECONDS

NODE, CLASS, FOLDER, ENTRY = "n1", "fast", "/mnt/disks", "disk"
PIECES = 3
HASTE = 300.0
"""How much faster the clock of the programs goes: their back-offs are for real servers."""

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)

T = TypeVar("T")
AGENT, MANAGER, SERVER = "agent", "manager", "server"
CREATE_DISK, WRITE_SPEC, WRITE_STATUS, DELETE_DISK = "create disk", "write spec", "write status", "delete disk"
CREATE_VOLUME, WRITE_VOLUME, DELETE_VOLUME = "create volume", "write volume", "delete volume"
WIPE = "wipe piece"


class Clock(SystemClock):
    """Hurries."""

    def monotonic(self) -> float:
        return super().monotonic() * HASTE

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / HASTE)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return super().call_later(seconds / HASTE, callback)


@dataclass
class Death:
    """Who dies, at which of its acts, and whether the act still happens.

    An act is chosen by its name and by how often it was done before (`at` counts from 1). Its place in the whole order
    would not do: how often a write meets a conflict and is done again is a matter of chance.
    """

    victim: str
    act: str
    at: int
    after: bool
    acts: int = 0
    came: bool = False

    def is_due(self, who: str, act: str) -> bool:
        if self.victim not in (who, SERVER) or self.act != act or self.came:
            return False
        self.acts += 1
        self.came = self.acts == self.at
        return self.came


class Process:
    """A program that can be killed and started again."""

    def __init__(self, world: World, who: tuple[str, ...], main: Callable[[Process], Awaitable[None]]) -> None:
        self.world, self.who, self._main = world, who, main
        self.dead = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.dead = asyncio.Event()
        self._task = asyncio.ensure_future(self._main(self))  # type: ignore[arg-type]

    async def end(self) -> None:
        self.dead.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def act(self, who: str, name: str, deed: Callable[[], Awaitable[T]]) -> T:
        """Do something to the world, unless death comes first. Who is dead waits for ever."""
        death = self.world.death
        self.world.acts[who, name] += 1
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()
        if death is None or not death.is_due(who, name):
            return await deed()
        if death.after:
            await deed()
        if death.victim == SERVER:
            self.world.server.cut()
            raise errors.ConnectionLost("the server died")
        self.dead.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


@dataclass
class Line:
    """The connection of a program to the server."""

    process: Process
    who: str

    async def request(self, request: Request) -> Answer:
        server = self.process.world.server
        if request.method == "GET" or "/events" in request.path or "dryRun" in request.query:
            return await server.request(request)
        return await self.process.act(self.who, act_of(request), lambda: server.request(request))

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self.process.world.server.stream(request) as chunks:
            yield chunks


@dataclass
class InFolder:
    """Records in a folder; each write is an act."""

    records: FolderRecords
    process: Process
    who: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.records, name)

    async def create(self, disk: LocalDisk) -> LocalDisk:
        return await self.process.act(self.who, CREATE_DISK, lambda: self.records.create(disk))

    async def write_spec(self, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        if spec == disk.spec:
            return disk
        return await self.process.act(self.who, WRITE_SPEC, lambda: self.records.write_spec(disk, spec))

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        if status == disk.status:
            return disk
        return await self.process.act(
            self.who, WRITE_STATUS, lambda: self.records.write_status(disk, status, locked=locked)
        )

    async def delete(self, disk: LocalDisk) -> None:
        await self.process.act(self.who, DELETE_DISK, lambda: self.records.delete(disk))


@dataclass
class Executor:
    """Wipes the disk piece by piece; each is an act."""

    process: Process

    async def look(self, disk: LocalDisk, place: Place) -> Target:
        return Target(kind=DiskKind(disk.status.kind), place=place, identity=Identity(), lock="disk")

    async def users(self, target: Target) -> str:
        return ""

    async def clean(self, target: Target, plan: Plan, *, on_progress: Report) -> None:
        for piece in range(PIECES):
            wipe = functools.partial(self.process.world.wipe, piece)
            await self.process.act(AGENT, f"{WIPE} {piece}", wipe)


@dataclass(frozen=True)
class Case:
    """What kind of disk goes round, and how."""

    kind: DiskKind
    reclaim: Reclaim
    in_folder: bool
    unseen: bool = False
    """Whether, while a program is dead, somebody takes what is offered, releases it and deletes the volume."""

    @property
    def settings(self) -> ClassSettings:
        mode = VolumeMode.BLOCK if self.kind is DiskKind.BLOCK_DEVICE else VolumeMode.FILESYSTEM
        return ClassSettings(name=CLASS, host_dir=FOLDER, mount_dir=FOLDER, volume_mode=mode, reclaim=self.reclaim)


@dataclass
class World:
    """Everything that outlives the programs."""

    case: Case
    folder: Path
    death: Death | None = None
    acts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Who did what, and how often."""

    left: set[int] = field(default_factory=set)
    """Pieces of the disk with a tenant's data."""

    broken: list[str] = field(default_factory=list)
    """What happened and never may."""

    def __post_init__(self) -> None:
        self.server = Server(offers=self._offered)
        self.server.put(
            f"/api/v1/nodes/{NODE}",
            {"metadata": {"uid": str(uuid.uuid4()), "labels": {"kubernetes.io/hostname": NODE}}},
        )
        self.server.put(f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}", {"provisioner": "none"})
        self.machine = FakeMachine()
        self.machine.make_folder(FOLDER)
        match self.case.kind:
            case DiskKind.DIRECTORY:
                self.machine.make_folder(f"{FOLDER}/{ENTRY}")
            case DiskKind.MOUNT_POINT:
                self.machine.mount(None, f"{FOLDER}/{ENTRY}")
            case DiskKind.BLOCK_DEVICE:
                self.machine.add_disk("/dev/sdb")
                self.machine.link(f"{FOLDER}/{ENTRY}", "/dev/sdb")
        self.configuration = Configuration(classes={CLASS: self.case.settings})
        self.clock = Clock()
        if self.case.in_folder:
            self.processes = [Process(self, (AGENT, MANAGER), self._provisioner)]
        else:
            self.processes = [Process(self, (AGENT,), self._agent), Process(self, (MANAGER,), self._manager)]
        self.records: Records = ApiRecords(Client(self.server, field_manager="test"))

    @property
    def death_came(self) -> bool:
        return self.death is not None and self.death.came

    # The programs.

    async def _agent(self, process: Process) -> None:
        await self._node_parts(process, ApiRecords(self._client(process, AGENT), node=NODE, clock=self.clock))

    async def _manager(self, process: Process) -> None:
        client = self._client(process, MANAGER)
        await self._manage(client, ApiRecords(client, clock=self.clock))

    async def _provisioner(self, process: Process) -> None:
        records = FolderRecords(self.folder / "records", clock=self.clock)
        records.open()
        self.records = records
        try:
            async with asyncio.TaskGroup() as group:
                client = self._client(process, MANAGER)
                group.create_task(self._manage(client, InFolder(records, process, MANAGER), node=NODE))
                group.create_task(self._node_parts(process, InFolder(records, process, AGENT)))
        finally:
            async with records._writing:  # a real death ends the thread that writes, too
                records.close()

    def _client(self, process: Process, who: str) -> Client:
        return Client(Line(process, who), field_manager=who)

    async def _manage(self, client: Client, records: Records, node: str = "") -> None:
        informers = InformerFactory(client, clock=self.clock)
        manager = Manager(
            informers,
            records=records,
            configuration=self.configuration,
            clock=self.clock,
            scope=ManagerScope(node=node),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            group.create_task(manager.run())

    async def _node_parts(self, process: Process, records: Records) -> None:
        discovery = Discovery(
            node=NODE,
            records=records,
            host=HostView(
                folders=FakeFolders(self.machine),
                mounts=FakeMounts(self.machine),
                devices=FakeDevices(self.machine),
                marks=FakeMarks(),
                uevents=FakeUevents(self.machine),
                workers=Workers(),
            ),
            clock=self.clock,
            configuration=self.configuration,
            settle_seconds=0.0,
        )
        cleaner = Cleaner(
            scope=CleaningScope(node=NODE),
            records=records,
            classes=lambda: self.configuration.classes,
            executor=Executor(process),
            state_folder=self.folder,
            clock=self.clock,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(discovery.run())
            group.create_task(cleaner.run())

    # The world around them.

    async def wipe(self, piece: int) -> None:
        if any(volume["status"]["phase"] == "Bound" for volume in self.server.volumes):
            self.broken.append("a disk was wiped whose volume is bound")
        self.left.discard(piece)

    def _offered(self, volume: Object) -> None:
        if self.left:
            self.broken.append(f"a disk with data of its last tenant was offered: {sorted(self.left)}")
        if len(self.server.volumes) > 1:
            self.broken.append("a disk was offered twice")

    def volume(self) -> Object | None:
        return self.server.volumes[0] if self.server.volumes else None

    def free_volume(self) -> Object | None:
        """The volume, if anybody may claim it."""
        volume = self.volume()
        if volume is None or volume["spec"].get("claimRef") or "deletionTimestamp" in volume["metadata"]:
            return None
        return volume

    def bind(self, volume: Object) -> None:
        """A tenant comes and writes all over the disk."""
        if self.left:
            self.broken.append("a tenant found data of the one before")
        claim = {"namespace": "default", "name": "data", "uid": str(uuid.uuid4())}
        self._change(volume, "Bound", spec={"claimRef": claim})
        self.left = set(range(PIECES))

    def release(self) -> None:
        volume = self.volume()
        assert volume is not None
        self._change(volume, "Released")

    def delete(self) -> None:
        volume = self.volume()
        assert volume is not None
        self.server.delete(f"{VOLUMES}/{volume['metadata']['name']}")

    def _change(self, volume: Object, phase: str, **parts: Object) -> None:
        path = f"{VOLUMES}/{volume['metadata']['name']}"
        if parts:
            self.server.patch(path, parts)
        self.server.put(path, {**self.server.objects[path], "status": {"phase": phase}})

    async def wipe_by_hand(self) -> None:
        """What `localpv wipe` orders for a disk whose volume is gone."""
        while True:
            (disk,) = await self.records.list()
            assert disk.spec.volume is not None
            now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            order = CleanOrder(volume_name=disk.spec.volume.name, volume_uid=disk.spec.volume.uid, requested_at=now)
            try:
                await self.records.write_spec(disk, msgspec.structs.replace(disk.spec, clean=order))
                return
            except errors.Conflict:
                await asyncio.sleep(0)

    # Time.

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        for process in self.processes:
            process.start()
        try:
            yield
        finally:
            for process in self.processes:
                await process.end()

    async def tend(self) -> None:
        """Whoever died is followed by another."""
        for process in self.processes:
            if process.dead.is_set():
                await process.end()
                if self.case.unseen and (free := self.free_volume()) is not None:
                    self.bind(free)
                    self.release()
                    self.delete()
                process.start()

    async def until(self, is_so: Callable[[], T | None], what: str) -> T:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    await self.tend()
                    assert not self.broken, self.broken
                    if found := is_so():
                        return found
                    await asyncio.sleep(0.0005)
        except TimeoutError:
            raise AssertionError(f"never: {what}; {self.server.volumes} {await self.records.list()}") from None

    async def quiet(self, turns: int = 30) -> None:
        """Let the programs do what they would do by themselves."""
        for _ in range(turns):
            await self.tend()
            await asyncio.sleep(0)


def act_of(request: Request) -> str:
    if request.path.startswith(VOLUMES):
        return {"POST": CREATE_VOLUME, "DELETE": DELETE_VOLUME}.get(request.method, WRITE_VOLUME)
    assert request.path.startswith(DISKS), request.path
    if request.method == "PATCH":
        return WRITE_STATUS if request.path.endswith(STATUS) else WRITE_SPEC
    return {"POST": CREATE_DISK, "DELETE": DELETE_DISK}[request.method]


def named(case: Case) -> str:
    parts = [case.kind.value, case.reclaim.value, "folder" if case.in_folder else "api"]
    return "-".join([*parts, "unseen"] if case.unseen else parts)
