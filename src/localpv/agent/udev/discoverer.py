"""The discoverer: what LocalStorages say about this node becomes rules of udev here, and what came of it is reported.

It reads the world and never the event that woke it, so that it may die at any point. One look, step by step, and what
holds if we die after each:

1.  Read what we are told (a mounted ConfigMap, or objects handed over). Nothing has changed.
2.  Take the lock of the node. The kernel gives it back when we die.
3.  Read the files of rules, and, where something is to be dropped or may be taken from somebody, which disks of this
    node volumes have: asked of the API, and when there is no answer nothing is dropped or taken. Nothing has changed.
4.  Write each file that changed, by a rename. Files hold the configuration they were made from, so whoever comes next
    goes on from what is there; a half-written file has a name that udev does not read, and the next try overwrites it.
    Some files may be new and others old: each is right by itself, and a device that two LocalStorages match may have
    two links until the next look, which the agent sees as one disk.
5.  Remove the files of which no group is left. A file that is left belongs to a LocalStorage that is gone, and
    step 3 of the next start finds that.
6.  Compare the marks that rules leave on devices with the files. If they differ, have udev read the rules, and look at
    those devices again. Dying before or in the middle of it leaves marks that differ, and the next look goes on here; a
    restart of the machine does the same by itself. A link whose device still matches stays where it is throughout:
    udev replaces what a device has by what it gets, and never takes a link away in between.
7.  Read udev's database, and write the LocalStorageNode if it says something else. It is written from what is there.

When we end, `leave` asks whether this is an update or the end of a group here; see there. It repeats steps 2 to 7 with
the group retired, and deletes the LocalStorageNode when nothing of its LocalStorage is left on the node. Dying in
between leaves a file whose LocalStorage is gone or does not mean this node, which the next discoverer on this node, of
whichever LocalStorage, finds (`_orphans`); the LocalStorageNode has the LocalStorage as its owner and goes with it.

A group that is retired or goes keeps the links of all disks that a volume has: a discoverer cannot see whether somebody
has claimed the volume. Whoever retires a group withdraws the volumes that nobody claimed; then their links go here.
So does a group that is told other devices: those of before stay beside it, retired and under an id of their own, with
the links in use that it gave; when udev has looked, those that a rule of now gives too are let go.

Of two LocalStorages that match a device the older has it, but it takes no link from under a volume: when rules come
that may match more than before, every LocalStorage holds the links in use that it gives. When udev has looked, those
that nobody older would take are let go, and the others when their volume is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from localpv import errors
from localpv.agent.udev import report, rules_file
from localpv.agent.udev.rules_folder import Configurations, Present, RulesFolder
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.localstorage import DeviceGroup, LocalStorage, LocalStorageNode, LocalStorageNodeStatus
from localpv.api.kinds.meta import write_time
from localpv.client.client import Client
from localpv.client.objects import Selection
from localpv.config import local_storage
from localpv.config.local_storage import GroupDevices, NodeConfiguration
from localpv.host.udev import NO_UDEV, Udev, UdevDevice
from localpv.host.uevents import Uevents
from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import Clock

log = logging.getLogger(__name__)

LOOK_EVERY = 60.0
"""Seconds between two looks although nothing was heard."""

LOOK_WHILE_GOING = 5.0
"""Seconds between two looks while a group waits for its last volumes, or udev is busy."""

ORPHANS_EVERY = 900.0
"""Seconds between two looks for files whose LocalStorage is gone; also at the start."""

FIRST_AGAIN = 1.0
"""Seconds until udev is asked again to look at a device that it has not looked at; then twice as long each time."""

LAST_AGAIN = 900.0
"""The longest of these waits."""

NEWS_SECONDS = 5.0
"""How long to wait for udev to be done with devices that have come or changed, before what is known is reported."""

GATHER_SECONDS = 0.25
"""Devices come in bunches: a disk with its partitions, a shelf of disks. They are reported together."""

SETTLE_SECONDS = 30.0
"""How long udev may take to look at all devices of a node."""

ASK_SECONDS = 10.0
"""How long an answer of the API may take while we have the lock of the node."""

LEAVE_SECONDS = 60.0
"""How long the end may take: an answer of the API, and udev's look at all devices."""

InUse = frozenset[str]
"""Links of disks that a volume has, as CLASS/MODE/ID."""


class Discoverer:
    """Keeps the rules of this node as it is told, for as long as `run` runs."""

    def __init__(
        self,
        *,
        node: str,
        client: Client,
        udev: Udev,
        uevents: Uevents,
        state: Path,
        clock: Clock,
        namespace: str,
        engine: str = "",
    ) -> None:
        """`namespace` is that of the operator, `engine` that of whom the files of rules are."""
        self._node, self._client, self._udev, self._uevents = node, client, udev, uevents
        self._clock = clock
        self._folder = RulesFolder(udev=udev, state=state, clock=clock, namespace=namespace, engine=engine)
        self._engine = engine
        self._told: dict[str, NodeConfiguration] = {}
        self._given = asyncio.Event()
        self._woken = asyncio.Event()
        self._reported: dict[str, LocalStorageNodeStatus] = {}
        self._in_force: dict[str, int] = {}
        self._asked_with: Mapping[str, str] = {}
        self._asked: dict[str, tuple[float, float]] = {}
        """Devices that udev has not looked at although it was asked: when it is asked again, and after which wait."""

        self._clashed: frozenset[tuple[str, str]] = frozenset()
        self._orphans_next = float("-inf")
        self._heard = False
        self.synced = False
        """Whether the rules that we were told last are in force."""

        self.unseen = 0
        """Devices that udev has not looked at with them, such as one that somebody has locked or that hangs."""

        self.matched = 0
        """Devices of this node that have links of the LocalStorages we are told about."""

    def configure(self, configurations: Iterable[NodeConfiguration]) -> None:
        """What holds from now on, as a whole."""
        self._told = {each.key: msgspec.structs.replace(each, engine=self._engine) for each in configurations}
        self._given.set()
        self._woken.set()

    async def run(self) -> None:
        """Look whenever something changed, until cancelled."""
        backoff = Backoff()
        listening = asyncio.create_task(self._listen())
        await self._given.wait()
        try:
            while True:
                self._woken.clear()
                try:
                    pause = await self.look()
                    backoff.reset()
                except errors.LocalpvError as error:
                    pause = backoff.next()
                    log.warning("looks again seconds=%.1f error=%s", pause, error)
                await self._pause(pause)
        finally:
            listening.cancel()

    async def _pause(self, seconds: float) -> None:
        timer = self._clock.call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    async def _listen(self) -> None:
        """Wake when block devices come, go or change; what udev made of it is read when it is done with them."""
        try:
            feed = self._uevents.changes()
        except errors.NotSupported as error:
            log.warning("devices are looked at every %g s only: %s", LOOK_EVERY, error)
            return
        async with feed:
            async for event in feed:
                if event.lost or event.subsystem == "block":
                    await self._clock.sleep(GATHER_SECONDS)
                    self._heard = True
                    self._woken.set()

    # One look.

    async def look(self) -> float:
        """Steps 1 to 7; seconds after which to look again."""
        told = dict(self._told)
        busy = False
        if self._heard:
            # A hung disk must not hold up the report about the others for longer than this.
            self._heard = False
            busy = not await self._udev.settle(seconds=NEWS_SECONDS)
        if not await self._udev.running():
            self.synced = False
            await self._report_all(told, (), {}, error=NO_UDEV)
            raise errors.NotSupported(NO_UDEV, hint="start systemd-udevd on this node")
        trouble: errors.LocalpvError | None = None
        waiting: dict[str, str] = {}

        async def change(present: Present) -> Configurations:
            # What holds now that we have the lock: `leave` may have taken away what was told when this look began.
            nonlocal told, trouble
            told, before = dict(self._told), present.configurations
            leaving, used = frozenset[tuple[str, str]](), None
            try:
                async with _answered():
                    leaving = await self._leaving(told, before)
                    used = await self._in_use() if leaving or _needs_to_know(present, told) else None
            except errors.LocalpvError as error:
                # Without an answer nothing goes; what is told comes into force all the same.
                trouble = error
            known = await self._known(before)
            self._check_damaged(present, told, used, known)
            after = _changed(before, told, leaving=leaving, used=used, waiting=waiting, known=known)
            return rules_file.with_pins(after, known.properties)

        try:
            now, _ = await self._folder.change(change)
        except errors.LocalpvError as error:
            self.synced = False
            why = f"{error}; {error.hint}" if error.hint else str(error)
            await self._report_all(told, await self._udev.devices(), {}, error=why)
            raise
        devices, unseen = await self._put_in_force(now)
        self.synced, self.unseen = _any_seen(devices, unseen), len(unseen)
        await self._report_all(told, devices, now, error="", waiting=waiting, unseen=unseen)
        if trouble is not None:
            raise trouble
        if busy or waiting or any(_is_retired(each) for each in now.values()):
            return LOOK_WHILE_GOING
        again = min((at for at, _ in self._asked.values()), default=float("inf"))
        return min(max(again - self._clock.monotonic(), 0.0), LOOK_EVERY)

    async def _known(self, before: Configurations) -> _Known:
        properties = [device.properties for device in await self._udev.devices()]
        return _Known(
            properties=properties,
            given=rules_file.groups_of_links(before.values(), properties, engine=self._engine),
            linked=rules_file.linked_by(before.values(), properties),
            contested=rules_file.contested(before.values(), properties),
        )

    def _check_damaged(self, present: Present, told: Configurations, used: InUse | None, known: _Known) -> None:
        """Raises when nothing may be written since nobody knows what a file of ours has kept for volumes: its rules are
        in force as they are. One that has kept nothing is written anew by who is told of its LocalStorage."""
        ours = {self._folder.name_of(each): each for each in told.values()}
        for name, why in sorted(present.damaged.items()):
            hint = "put the file back as it was, or remove it when no volume needs its links, which go with it then"
            if (each := ours.get(name)) is None:
                raise errors.ConfigurationError(
                    f"the header of {name} is damaged ({why}), so all rules of this node stay as they are", hint=hint
                )
            by_it = rules_file.linked_by([each], known.properties)
            absent = _in_folders(each, used or ()) - known.linked.keys()
            kept = absent.union(used or ()).intersection((*by_it, *absent))
            if used is None or kept:
                volumes = ", ".join(sorted(kept)[:10]) or "the API does not say which"
                raise errors.ConfigurationError(
                    f"the header of {name} is damaged ({why}), and volumes have links of it: {volumes}; it stays as it"
                    " is until they are gone",
                    hint=hint,
                )

    async def _put_in_force(self, now: Configurations) -> tuple[tuple[UdevDevice, ...], frozenset[str]]:
        """Step 6: the devices, and the names of those that udev has not looked at with the rules of now."""
        marks = rules_file.marks([*now.values()])
        devices = await self._udev.devices()
        if stale := self._due(_stale(devices, marks, engine=self._engine), marks):
            log.info("has udev look again devices=%d", len(stale))
            await self._udev.reload()
            devices = await self._looked_at(stale)
        if clashes := _clashes(devices, now) - self._clashed:
            # udev looks at several devices at once, so two with one serial number may both have found the name free.
            self._clashed |= clashes
            names = {name for name, _ in clashes}
            log.warning("devices with a serial number that is not theirs alone devices=%s", ",".join(sorted(names)))
            devices = await self._looked_at(names, argument=rules_file.SAME_SERIAL)
        unseen = _stale(devices, marks, engine=self._engine)
        self._asked = {name: asked for name, asked in self._asked.items() if name in unseen}
        if stale and unseen:
            log.warning("udev has not looked at devices=%s", ",".join(sorted(unseen)[:10]))
        return devices, unseen

    def _due(self, stale: frozenset[str], marks: Mapping[str, str]) -> frozenset[str]:
        """Those that udev is to be asked to look at now. One that somebody has locked is asked again more and more
        rarely: each question is a uevent, and uevents wake us."""
        if marks != self._asked_with:
            self._asked_with, self._asked = dict(marks), {}
        now = self._clock.monotonic()
        due = frozenset(name for name in stale if name not in self._asked or self._asked[name][0] <= now)
        for name in due:
            wait = min(2 * self._asked[name][1], LAST_AGAIN) if name in self._asked else FIRST_AGAIN
            self._asked[name] = (now + wait, wait)
        return due

    async def _looked_at(self, names: Collection[str], *, argument: str = "") -> tuple[UdevDevice, ...]:
        await self._udev.trigger(sorted(names), argument=argument)
        if not await self._udev.settle(seconds=SETTLE_SECONDS):
            log.warning("udev is still busy seconds=%g", SETTLE_SECONDS)
        return await self._udev.devices()

    async def _leaving(self, told: Configurations, present: Configurations) -> frozenset[tuple[str, str]]:
        """Groups on this node that nobody means any more, as UID and id."""
        if self._clock.monotonic() < self._orphans_next:
            return frozenset()
        found: set[tuple[str, str]] = set()
        for each in present.values():
            owned = told[each.key].groups if each.key in told and told[each.key].uid == each.uid else {}
            foreign = {id: it for id, it in each.groups.items() if id not in owned and not local_storage.is_earlier(id)}
            if foreign:
                over = await self._over(msgspec.structs.replace(each, groups=foreign), also_deleting=False)
                found |= {(each.uid, group) for group in over}
        # Only when all were asked about: an error above means that it is tried again.
        self._orphans_next = self._clock.monotonic() + ORPHANS_EVERY
        return frozenset(found)

    async def _over(self, configuration: NodeConfiguration, *, also_deleting: bool) -> frozenset[str]:
        """Groups that certainly mean this node no more: the LocalStorage is gone or another one, or it has no such
        group, or the group does not select this node. Raises when there is no certain answer."""
        storage = await self._client.objects(LocalStorage).find(configuration.name, configuration.namespace)
        every = frozenset(configuration.groups)
        if storage is None or storage.metadata.uid != configuration.uid:
            return every
        if storage.metadata.deleting:
            return every if also_deleting else frozenset()
        groups = local_storage.groups(storage)
        node = await self._client.objects(Node).get(self._node)
        return frozenset(id for id in every if id not in groups or not local_storage.selects(groups[id], node))

    async def _in_use(self) -> InUse:
        """Links of this node's disks that a volume has, or that are being cleaned for one."""
        prefix = f"/dev/{local_storage.LINKS}/"
        selection = Selection(fields=f"spec.nodeName={self._node}")
        return InUse(
            [
                disk.spec.path.removeprefix(prefix)
                for disk in (await self._client.objects(LocalDisk).list(selection)).items
                if disk.spec.path.startswith(prefix) and (disk.spec.volume is not None or disk.spec.clean is not None)
            ]
        )

    # What came of it.

    async def _report_all(
        self,
        told: Configurations,
        devices: Sequence[UdevDevice],
        now: Configurations,
        *,
        error: str,
        waiting: Mapping[str, str] | None = None,
        unseen: frozenset[str] = frozenset(),
    ) -> None:
        self.matched = 0
        for key, configuration in told.items():
            wrong = error or (waiting or {}).get(key, "")
            if not wrong and not _any_seen(devices, unseen):
                wrong = "udev has not taken the rules over"
            if not wrong:
                self._in_force[key] = (now[key].generation if key in now else 0) or configuration.generation
            status = report.status(
                now.get(key, configuration),
                devices,
                unseen=unseen,
                generation=self._in_force.get(key, 0),
                error=wrong,
            )
            self.matched += status.matched
            await self._report(configuration, status)

    async def _report(self, configuration: NodeConfiguration, status: LocalStorageNodeStatus) -> None:
        """Write the LocalStorageNode if it says something else."""
        if self._reported.get(configuration.uid) == status:
            return
        objects = self._client.objects(LocalStorageNode)
        made = report.empty_object(configuration, self._node)
        name, namespace = made.metadata.name, made.metadata.namespace
        found = await objects.find(name, namespace)
        if found is not None and found.spec != made.spec:
            # Of a LocalStorage that had this name before.
            await objects.delete(name, namespace, uid=found.metadata.uid)
            found = None
        if found is None:
            found = await objects.create(made)
        if msgspec.structs.replace(found.status, observed_at=None) != status:
            stamped = msgspec.structs.replace(status, observed_at=write_time(self._clock.now()))
            patch = {"status": {**_EVERY_FIELD, **msgspec.to_builtins(stamped)}}
            await objects.patch(name, patch, namespace, subresource="status")
        self._reported[configuration.uid] = status

    # The end.

    async def leave(self, configurations: Iterable[NodeConfiguration] | None = None) -> None:
        """Tell an update from a removal, after `run` has ended.

        An update or a restart leaves everything: the API says that the LocalStorage exists, is not being deleted, has
        this group, and the group selects this node. So does no answer. Otherwise the group is retired here: what no
        volume has goes, and with the last link the group, with the last group the file and the LocalStorageNode.
        """
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                for configuration in self._told.values() if configurations is None else configurations:
                    await self._leave(configuration)
        except (errors.LocalpvError, TimeoutError) as error:
            log.warning("leaves all rules as they are error=%s", error or "no answer in time")

    async def _leave(self, configuration: NodeConfiguration) -> None:
        over = await self._over(configuration, also_deleting=True)
        if not over:
            log.info("leaves all rules as they are localstorage=%s reason=update", configuration.key)
            return
        leaving = frozenset((configuration.uid, group) for group in over)

        async def change(present: Present) -> Configurations:
            async with _answered():
                used = await self._in_use()
            known = await self._known(present.configurations)
            self._check_damaged(present, {}, used, known)
            return _changed(present.configurations, {}, leaving=leaving, used=used, waiting={}, known=known)

        now, _ = await self._folder.change(change)
        await self._put_in_force(now)
        if left := now.get(configuration.key):
            kept = sorted(link for group in left.groups.values() for link in group.kept)
            log.warning(
                "keeps links in use localstorage=%s count=%d links=%s",
                configuration.key,
                len(kept),
                ",".join(kept[:10]),
            )
            return
        log.info("has removed its rules localstorage=%s", configuration.key)
        name = local_storage.report_name(configuration.name, self._node)
        objects = self._client.objects(LocalStorageNode)
        found = await objects.find(name, configuration.namespace)
        if found is not None and found.spec.local_storage_uid == configuration.uid:
            await objects.delete(name, configuration.namespace, uid=found.metadata.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What udev's database says, of the rules that are in the files."""

    properties: Sequence[Mapping[str, str]]
    """Of all devices."""

    given: Mapping[str, tuple[str, str]]
    """UID and id of the group that gives a link, of devices at which udev has looked with exactly these rules."""

    linked: Mapping[str, frozenset[str]]
    """LocalStorages that have given a link, with whichever rules."""

    contested: frozenset[str]
    """Links that an older LocalStorage would take."""


@contextlib.asynccontextmanager
async def _answered() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ASK_SECONDS):
            yield
    except TimeoutError as error:
        raise errors.ConnectionLost(f"no answer of the API within {ASK_SECONDS:g} s") from error


_EVERY_FIELD = {"generation": None, "matched": None, "devices": None, "error": None}
"""What a merge patch must say so that fields go which have their default now."""


def _is_retired(configuration: NodeConfiguration) -> bool:
    return any(group.retired for group in configuration.groups.values())


def _needs_to_know(present: Present, told: Configurations) -> bool:
    """Whether it depends on volumes what becomes of these."""
    before = present.configurations
    others = (key for key in before.keys() & told.keys() if before[key].uid != told[key].uid)
    return (
        bool(present.damaged)
        or any(map(_is_retired, (*before.values(), *told.values())))
        or any(each.held for each in before.values())
        or any(True for _ in others)
        or _may_take(before, {**before, **told})
        or any(_edited(before[key], told[key]) for key in before.keys() & told.keys())
    )


def _may_take(before: Configurations, after: Configurations) -> bool:
    """Whether rules come that may match devices of other LocalStorages."""
    return len(after) > 1 and any(
        key not in before or _edited(before[key], each) or _comes_back(before[key], each) for key, each in after.items()
    )


def _comes_back(old: NodeConfiguration, new: NodeConfiguration) -> bool:
    """Whether a group links new devices again that did so no more."""
    return any(
        old.groups[id].retired and not group.retired and old.groups[id].generation <= group.generation
        for id, group in new.groups.items()
        if id in old.groups
    )


def _edited(old: NodeConfiguration, new: NodeConfiguration) -> frozenset[str]:
    """Groups that have other devices now, or another place among the groups, so that links may move."""
    return frozenset(
        id
        for id, group in new.groups.items()
        if (was := old.groups.get(id)) is None
        or (was.generation <= group.generation and (was.index, _links_of(was)) != (group.index, _links_of(group)))
    )


def _links_of(group: GroupDevices) -> list[DeviceGroup]:
    """The devices of a group without what says nothing about links."""
    return [
        msgspec.structs.replace(
            devices,
            fs_type="",
            block_cleaner_command=(),
            min_size="",
            max_size="",
            medium_types=(),
            max_device_count=0,
        )
        for devices in group.devices
    ]


def _changed(
    before: Configurations,
    told: Configurations,
    *,
    leaving: frozenset[tuple[str, str]],
    used: InUse | None,
    waiting: dict[str, str],
    known: _Known,
) -> dict[str, NodeConfiguration]:
    """What is to be in the files: what was, what we are told, and of what goes no more than volumes have.

    `used` is None when nobody has asked: what goes then stays as it is until the next look. `waiting` gets the
    LocalStorages that cannot be served yet, and why.
    """
    after, given = dict(before), known.given
    fresh: set[str] = set()
    for key, new in told.items():
        old = before.get(key)
        if old is not None and old.uid != new.uid:
            # The name of one that was deleted by force. Its file has the name of ours, so it must be over first.
            last = _without(old, {(old.uid, group) for group in old.groups}, used)
            if last.groups:
                after[key] = last
                kept = sorted(link for group in last.groups.values() for link in group.kept)
                waiting[key] = f"an earlier LocalStorage of this name still has volumes here: {', '.join(kept[:10])}"
                continue
            old = None
        if used is None:
            new = msgspec.structs.replace(new, groups={id: it for id, it in new.groups.items() if not it.retired})
        after[key] = local_storage.merged(old, new)
        if old is None or not (edited := _edited(old, new)):
            continue
        if used is None:
            same = {id: it for id, it in new.groups.items() if id not in edited}
            after[key] = local_storage.merged(old, msgspec.structs.replace(new, groups=same))
            continue
        earlier = _earlier(old, edited, used, given)
        after[key] = msgspec.structs.replace(after[key], groups={**after[key].groups, **earlier})
        try:
            local_storage.read(after[key].text())
        except local_storage.WrongConfiguration as error:
            after[key] = old
            waiting[key] = f"volumes have links by too many earlier rules; delete their claims first: {error}"
            continue
        fresh |= {link for group in earlier.values() for link in group.kept}
    live = {link for link, (uid, id) in given.items() if not _gives_for_volumes(before, uid, id)} - fresh
    for key, each in after.items():
        going = {pair for pair in leaving if pair[0] == each.uid}
        going |= {(each.uid, group) for group, it in each.groups.items() if it.retired}
        after[key] = _without(each, going, used, live)
    return _holding(before, after, used, known, waiting)


def _holding(
    before: Configurations,
    after: dict[str, NodeConfiguration],
    used: InUse | None,
    known: _Known,
    waiting: dict[str, str],
) -> dict[str, NodeConfiguration]:
    """Each with the links that it holds for volumes, so that no older one takes them."""
    takes = _may_take(before, after)
    holding: dict[str, NodeConfiguration] = {}
    for key, each in after.items():
        had = frozenset(each.held)
        held = had
        if used is not None:
            mine = {link for link in used if key in known.linked.get(link, ())}
            # Disks that are not there have theirs when they are.
            mine |= _in_folders(each, used) - known.linked.keys()
            needed = {link for link in mine if link in known.contested or link not in known.given}
            held = frozenset(mine if takes else had & needed)
        elif takes:
            # Nobody says which of them volumes have, so all of them may.
            held = had | {link for link, keys in known.linked.items() if key in keys}
        holding[key] = msgspec.structs.replace(each, held=tuple(sorted(held)))
    try:
        for each in holding.values():
            local_storage.read(each.text())
    except local_storage.WrongConfiguration as error:
        for key in [key for key in after if after[key] != before.get(key)]:
            waiting[key] = f"other LocalStorages have too many volumes that they hold: {error}"
        return dict(before)
    return holding


def _earlier(
    old: NodeConfiguration, edited: Collection[str], used: InUse, given: Mapping[str, tuple[str, str]]
) -> dict[str, GroupDevices]:
    """What stays of groups for volumes when some of them get other devices: any of the others may lose a device too."""
    known = {link for id, group in old.groups.items() if local_storage.is_earlier(id) for link in group.kept}
    found: dict[str, GroupDevices] = {}
    for id, group in old.groups.items():
        if local_storage.is_earlier(id):
            continue
        kept = {link for link in used if given.get(link) == (old.uid, id)}
        if id in edited:
            # Disks that are not there, or that udev has not looked at, have theirs when they are.
            kept |= {link for link in _below(group, used) if link not in given and link not in known}
        if kept:
            earlier = local_storage.earlier_id(id, group)
            kept |= set(old.groups[earlier].kept) if earlier in old.groups else set()
            found[earlier] = msgspec.structs.replace(group, retired=True, kept=tuple(sorted(kept)))
    return found


def _gives_for_volumes(configurations: Configurations, uid: str, id: str) -> bool:
    return any(each.uid == uid and each.groups[id].retired for each in configurations.values() if id in each.groups)


def _below(group: GroupDevices, links: Iterable[str]) -> set[str]:
    """Links that are in the folders of a group."""
    places = {f"{devices.storage_class_name}/{local_storage.mode_of(devices)}/" for devices in group.devices}
    return {link for link in links if link.startswith(tuple(places))}


def _in_folders(configuration: NodeConfiguration, links: Collection[str]) -> set[str]:
    """Links that are in the folders of any group."""
    return {link for group in configuration.groups.values() for link in _below(group, links)}


def _without(
    configuration: NodeConfiguration,
    going: set[tuple[str, str]],
    used: InUse | None,
    live: Collection[str] = frozenset(),
) -> NodeConfiguration:
    """A configuration without groups that go; one with links in use is retired and keeps those. What a group had before
    keeps no more than it has kept, and nothing that is `live`: that is given by a group that stays."""
    if used is None:
        return configuration
    groups: dict[str, GroupDevices] = {}
    for id, group in configuration.groups.items():
        if (configuration.uid, id) not in going:
            groups[id] = group
            continue
        kept = _below(group, used)
        if local_storage.is_earlier(id):
            kept = kept.intersection(group.kept).difference(live)
        if kept:
            groups[id] = msgspec.structs.replace(group, retired=True, kept=tuple(sorted(kept)))
    return msgspec.structs.replace(configuration, groups=groups)


def _stale(devices: Iterable[UdevDevice], marks: Mapping[str, str], *, engine: str) -> frozenset[str]:
    """Names of devices that were not looked at with exactly these rules."""
    return frozenset(
        device.name for device in devices if rules_file.marks_of(device.properties, engine=engine) != marks
    )


def _clashes(devices: Iterable[UdevDevice], now: Configurations) -> frozenset[tuple[str, str]]:
    """Devices that were given a link which leads to another one, with that link."""
    return frozenset(
        (device.name, link)
        for device in devices
        for each in now.values()
        if (link := rules_file.found(each, device.properties).link) and link not in device.links
    )


def _any_seen(devices: Sequence[UdevDevice], unseen: frozenset[str]) -> bool:
    return not devices or any(device.name not in unseen for device in devices)
