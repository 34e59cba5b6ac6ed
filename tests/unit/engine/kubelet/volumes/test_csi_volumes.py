"""Volumes of CSI drivers: what a driver is asked for, in which order, and that every step can die."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.engine.kubelet.volumes.tiny_driver import NAME, FakeHands, InProcess, Registered, TinyDriver
from tests.unit.engine.kubelet.volumes.world import Died, Machine, a_pod, claim_volume, dying_hands

from localpv import errors
from localpv.api.kinds.containers import NamedSource
from localpv.api.kinds.csi import CSIDriver, CSIDriverSpec, TokenRequest
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import CSIInlineVolumeSource, Pod, Volume
from localpv.api.kinds.volumes import Condition, PersistentVolumeClaimStatus, SecretReference
from localpv.csi.status import Code, RpcError
from localpv.engine.kubelet.volumes import NotReady
from localpv.engine.kubelet.volumes.volume_manager import Teardown

STAGES, EXPANDS = "STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME"


class World(Machine):
    """A machine with a driver that has two volumes: handle/1 with a file system, handle/raw with a device."""

    def __init__(self, root: Path, *, abilities: tuple[str, ...] = (STAGES, EXPANDS), **terms: Any) -> None:
        super().__init__(root)
        raw = self.machine.add_disk("/dev/loop7").path
        sources = {"handle/1": Path("/pool/1"), "handle/raw": raw, "inline": Path("/pool/inline")}
        self.driver = TinyDriver(FakeHands(self.machine), sources, abilities=abilities)
        self.drivers = self.registered = Registered(self.driver)
        self.terms(**terms)
        self.lookup.serve("handle/1", driver=NAME)
        self.lookup.serve("handle/raw", driver=NAME, name="raw", mode="Block")
        self.restarted()

    def terms(self, **terms: Any) -> None:
        spec = CSIDriverSpec(**{"attach_required": False, **terms})
        self.lookup.csi_drivers[NAME] = CSIDriver(metadata=ObjectMeta(name=NAME), spec=spec)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "node")


def inline(name: str = "scratch", **more: Any) -> Volume:
    return Volume(name=name, csi=CSIInlineVolumeSource(driver=NAME, volume_attributes={"size": "1"}, **more))


async def test_a_volume_is_staged_once_published_for_each_pod_and_unstaged_with_the_last(world: World) -> None:
    one, two = a_pod(claim_volume()), a_pod(claim_volume())
    first = (await world.volumes.set_up(one))["data"].path
    second = (await world.volumes.set_up(two))["data"].path
    root, uid = world.volumes.layout.root, one.metadata.uid
    assert first == root / "pods" / uid / "volumes" / "kubernetes.io~csi" / "pv" / "mount"
    assert [name for name, _ in world.driver.log] == ["NodeStageVolume", *["NodePublishVolume"] * 2]
    staged = world.driver.calls("NodeStageVolume")[0]
    digest = hashlib.sha256(b"handle/1").hexdigest()
    driver = root / "plugins" / "kubernetes.io" / "csi" / NAME
    assert staged["staging_target_path"] == str(driver / digest / "globalmount")
    await world.volumes.tear_down(uid)
    assert world.driver.hands.is_shown(second) and not world.driver.hands.is_shown(first)
    assert world.driver.calls("NodeUnstageVolume") == []
    await world.volumes.tear_down(two.metadata.uid)
    assert world.driver.holds == []
    assert world.left() == []


async def test_the_driver_hears_what_a_kubelet_would_tell_it(world: World) -> None:
    world.terms(pod_info_on_mount=True)
    pod = a_pod(claim_volume(read_only=True), group=42)
    await world.volumes.set_up(pod)
    published = world.driver.calls("NodePublishVolume")[0]
    assert published["volume_id"] == "handle/1"
    assert published["readonly"] is True
    assert published["volume_capability"] == {
        "access_mode": {"mode": "SINGLE_NODE_WRITER"},
        "mount": {"fs_type": "ext4", "mount_flags": []},
    }
    assert published["volume_context"] == {
        "from": "class",
        "csi.storage.k8s.io/pod.name": pod.metadata.name,
        "csi.storage.k8s.io/pod.namespace": "default",
        "csi.storage.k8s.io/pod.uid": pod.metadata.uid,
        "csi.storage.k8s.io/serviceAccount.name": "default",
        "csi.storage.k8s.io/ephemeral": "false",
    }
    assert world.driver.calls("NodeStageVolume")[0]["volume_context"] == {"from": "class"}
    data = json.loads((Path(published["target_path"]).parent / "vol_data.json").read_text())
    assert data | {"published": True} == data
    assert (data["driverName"], data["volumeHandle"], data["specVolID"]) == (NAME, "handle/1", "pv")
    assert (data["nodeName"], data["volumeLifecycleMode"]) == ("n1", "Persistent")


@pytest.mark.parametrize(
    ("modes", "ability", "mode"),
    [
        (("ReadWriteOnce",), (), "SINGLE_NODE_WRITER"),
        (("ReadWriteOncePod",), (), "SINGLE_NODE_WRITER"),
        (("ReadWriteOnce",), ("SINGLE_NODE_MULTI_WRITER",), "SINGLE_NODE_MULTI_WRITER"),
        (("ReadWriteOncePod",), ("SINGLE_NODE_MULTI_WRITER",), "SINGLE_NODE_SINGLE_WRITER"),
        (("ReadOnlyMany", "ReadWriteOnce"), (), "MULTI_NODE_READER_ONLY"),
        (("ReadWriteMany",), (), "MULTI_NODE_MULTI_WRITER"),
    ],
)
async def test_access_modes_have_the_names_of_the_specification(
    tmp_path: Path, modes: tuple[str, ...], ability: tuple[str, ...], mode: str
) -> None:
    world = World(tmp_path, abilities=(STAGES, *ability))
    world.lookup.serve("handle/1", driver=NAME, access_modes=modes)
    await world.volumes.set_up(a_pod(claim_volume()))
    assert world.driver.calls("NodePublishVolume")[0]["volume_capability"]["access_mode"]["mode"] == mode


@pytest.mark.parametrize(
    ("policy", "fs_type", "modes", "given"),
    [
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteOnce",), True),
        ("ReadWriteOnceWithFSType", "", ("ReadWriteOnce",), False),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteMany",), False),
        ("File", "", ("ReadWriteMany",), True),
        ("None", "ext4", ("ReadWriteOnce",), False),
    ],
)
async def test_files_are_given_to_the_group_of_the_pod_as_the_driver_wants_it(
    world: World, policy: str, fs_type: str, modes: tuple[str, ...], given: bool
) -> None:
    world.terms(fs_group_policy=policy)
    world.lookup.serve("handle/1", driver=NAME, fs_type=fs_type, access_modes=modes)
    path = (await world.volumes.set_up(a_pod(claim_volume(), group=42)))["data"].path
    assert world.ownership.given == ({path: 42} if given else {})


async def test_a_driver_that_gives_files_to_the_group_itself_is_told_the_group(tmp_path: Path) -> None:
    world = World(tmp_path, abilities=(STAGES, "VOLUME_MOUNT_GROUP"), fs_group_policy="File")
    await world.volumes.set_up(a_pod(claim_volume(), group=42))
    for call in ("NodeStageVolume", "NodePublishVolume"):
        assert world.driver.calls(call)[0]["volume_capability"]["mount"]["volume_mount_group"] == "42"
    assert world.ownership.given == {}


async def test_a_driver_that_does_not_stage_is_not_asked_to(tmp_path: Path) -> None:
    world = World(tmp_path, abilities=())
    for pod in (a_pod(claim_volume()), a_pod(claim_volume("raw"), devices=["data"])):
        await world.volumes.set_up(pod)
        await world.volumes.tear_down(pod.metadata.uid)
    assert {name for name, _ in world.driver.log} == {"NodePublishVolume", "NodeUnpublishVolume"}
    assert world.left() == []


async def test_a_raw_device_is_published_outside_of_the_pod_and_linked_into_it(world: World) -> None:
    pod = a_pod(claim_volume("raw"), devices=["data"])
    prepared = (await world.volumes.set_up(pod))["data"]
    root, uid = world.volumes.layout.root, pod.metadata.uid
    devices = root / "plugins" / "kubernetes.io" / "csi" / "volumeDevices"
    published = world.driver.calls("NodePublishVolume")[0]
    assert published["target_path"] == str(devices / "publish" / "raw" / uid)
    assert published["staging_target_path"] == str(devices / "staging" / "raw")
    assert published["volume_capability"] == {"access_mode": {"mode": "SINGLE_NODE_WRITER"}, "block": {}}
    assert prepared.path == root / "pods" / uid / "volumeDevices" / "kubernetes.io~csi" / "raw"
    assert prepared.path.readlink() == devices / "publish" / "raw" / uid
    assert prepared.device and prepared.access == "rwm"
    assert prepared.number == world.machine.disks[Path("/dev/loop7")].device.number
    # As after a restart: the same again, and nothing is asked of the driver.
    calls = len(world.driver.log)
    assert (await world.restarted().set_up(pod))["data"] == prepared
    assert len(world.driver.log) == calls
    await world.volumes.tear_down(uid)
    assert world.driver.holds == []
    assert world.left() == []


async def test_after_a_restart_pods_keep_their_volumes_also_while_the_driver_is_away(world: World) -> None:
    pod = a_pod(claim_volume())
    path = (await world.volumes.set_up(pod))["data"].path
    world.registered.away = True
    assert (await world.restarted().set_up(pod))["data"].path == path
    with pytest.raises(NotReady) as caught:
        await world.volumes.set_up(a_pod(claim_volume()))
    assert caught.value.reason == "DriverMissing"
    with pytest.raises(errors.HostError, match="not registered"):
        await world.volumes.tear_down(pod.metadata.uid)
    assert world.driver.hands.is_shown(path)
    assert await world.volumes.leftovers() == {pod.metadata.uid}
    world.registered.away = False
    await world.volumes.tear_down(pod.metadata.uid)
    assert world.left() == []


async def test_what_the_driver_refuses_is_told_and_tried_again(world: World) -> None:
    world.driver.refusals.append(RpcError(Code.RESOURCE_EXHAUSTED, "no room"))
    pod = a_pod(claim_volume())
    with pytest.raises(NotReady, match="failed: RESOURCE_EXHAUSTED: no room"):
        await world.volumes.set_up(pod)
    assert (await world.volumes.set_up(pod))["data"].path.is_dir()
    world.driver.refusals.append(RpcError(Code.ABORTED, "busy"))
    with pytest.raises(errors.HostError, match="ABORTED: busy"):
        await world.volumes.tear_down(pod.metadata.uid)
    await world.volumes.tear_down(pod.metadata.uid)
    assert world.left() == []


async def test_a_driver_that_says_unmounted_and_leaves_the_mount_is_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = a_pod(claim_volume())
    await world.volumes.set_up(pod)

    async def nothing(request: dict[str, Any]) -> dict[str, Any]:
        return {}

    with monkeypatch.context() as patch:
        patch.setattr(world.driver, "unpublish", nothing)
        with pytest.raises(errors.DeviceBusy, match="still mounted"):
            await world.volumes.tear_down(pod.metadata.uid)
    assert world.driver.calls("NodeUnstageVolume") == []
    await world.volumes.tear_down(pod.metadata.uid)
    assert world.left() == []


async def test_a_volume_for_one_pod_is_refused_to_a_second(world: World) -> None:
    for name, mode, devices in (("pv", None, []), ("raw", "Block", ["data"])):
        handle = "handle/raw" if mode else "handle/1"
        world.lookup.serve(handle, driver=NAME, name=name, mode=mode, access_modes=("ReadWriteOncePod",))
        one = a_pod(claim_volume(name), devices=devices)
        await world.volumes.set_up(one)
        two = a_pod(claim_volume(name), devices=devices)
        with pytest.raises(NotReady, match="in use by another pod"):
            await world.volumes.set_up(two)
        await world.volumes.tear_down(one.metadata.uid)
        await world.volumes.set_up(two)
        await world.volumes.tear_down(two.metadata.uid)
    assert world.left() == []


async def test_a_driver_that_wants_its_volumes_attached_is_refused_by_name(world: World) -> None:
    world.terms(attach_required=True)
    with pytest.raises(NotReady) as caught:
        await world.volumes.set_up(a_pod(claim_volume()))
    assert caught.value.reason == "AttachNotSupported"
    del world.lookup.csi_drivers[NAME]  # which means the same
    with pytest.raises(NotReady, match="attached first"):
        await world.volumes.set_up(a_pod(claim_volume()))
    assert world.left() == []


async def test_a_volume_that_is_another_one_under_the_same_name_is_not_shown_to_the_same_pod(world: World) -> None:
    pod = a_pod(claim_volume())
    await world.volumes.set_up(pod)
    world.driver.sources["handle/2"] = Path("/pool/2")
    world.lookup.serve("handle/2", driver=NAME)
    with pytest.raises(NotReady) as caught:
        await world.restarted().set_up(pod)
    assert caught.value.reason == "VolumeChanged"
    assert world.driver.published == {str(world.driver.calls("NodePublishVolume")[0]["target_path"]): "handle/1"}


@pytest.mark.parametrize("name", ["staging", "publish"])
async def test_a_raw_volume_whose_name_is_a_folder_of_all_volumes_is_refused(world: World, name: str) -> None:
    world.lookup.serve("handle/raw", driver=NAME, name=name, mode="Block")
    with pytest.raises(NotReady, match="cannot have the name"):
        await world.volumes.set_up(a_pod(claim_volume(name), devices=["data"]))


# -- inline volumes ----------------------------------------------------------------------------------------------------


async def test_an_inline_volume_is_published_for_its_pod_alone_and_goes_with_it(world: World) -> None:
    world.terms(volume_lifecycle_modes=("Ephemeral",), pod_info_on_mount=True)
    pod = a_pod(inline())
    prepared = (await world.volumes.set_up(pod))["scratch"]
    published = world.driver.calls("NodePublishVolume")[0]
    assert published["volume_id"].startswith("csi-") and len(published["volume_id"]) == 68
    assert "staging_target_path" not in published
    assert published["volume_context"]["size"] == "1"
    assert published["volume_context"]["csi.storage.k8s.io/ephemeral"] == "true"
    assert prepared.path.name == "mount"
    await world.volumes.tear_down(pod.metadata.uid)
    assert [name for name, _ in world.driver.log] == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert world.left() == []


async def test_an_inline_volume_of_a_driver_without_that_lifecycle_is_refused(world: World) -> None:
    with pytest.raises(NotReady, match="does not serve volumes of lifecycle Ephemeral"):
        await world.volumes.set_up(a_pod(inline()))
    del world.lookup.csi_drivers[NAME]
    with pytest.raises(NotReady, match="no CSIDriver object"):
        await world.volumes.set_up(a_pod(inline()))
    assert world.left() == []


async def test_a_driver_of_inline_volumes_alone_serves_no_others(world: World) -> None:
    world.terms(volume_lifecycle_modes=("Ephemeral",))
    with pytest.raises(NotReady, match="lifecycle Persistent"):
        await world.volumes.set_up(a_pod(claim_volume()))


async def test_secrets_and_tokens_go_where_the_driver_wants_them(world: World) -> None:
    world.lookup.secrets["default/key"] = {"password": b"x"}
    tokens = {"token_requests": (TokenRequest(audience="vault", expiration_seconds=700),)}
    world.terms(volume_lifecycle_modes=("Ephemeral",), **tokens)
    await world.volumes.set_up(a_pod(inline(node_publish_secret_ref=NamedSource(name="key"))))
    published = world.driver.calls("NodePublishVolume")[0]
    assert published["secrets"] == {"password": "x"}
    written = json.loads(published["volume_context"]["csi.storage.k8s.io/serviceAccount.tokens"])
    assert written == {"vault": {"token": "token-1", "expirationTimestamp": world.lookup.token_ends}}
    assert world.lookup.tokens[0][1:] == ("vault", 700)
    world.terms(volume_lifecycle_modes=("Ephemeral",), service_account_token_in_secrets=True, **tokens)
    await world.volumes.set_up(a_pod(inline()))
    assert "csi.storage.k8s.io/serviceAccount.tokens" in world.driver.calls("NodePublishVolume")[1]["secrets"]


async def test_a_volume_waits_for_the_secret_that_its_driver_needs(world: World) -> None:
    volume = world.lookup.volumes["pv"]
    assert volume.spec.csi is not None
    source = msgspec.structs.replace(volume.spec.csi, node_stage_secret_ref=SecretReference(name="k", namespace="s"))
    spec = msgspec.structs.replace(volume.spec, csi=source)
    world.lookup.volumes["pv"] = msgspec.structs.replace(volume, spec=spec)
    with pytest.raises(NotReady, match="secret s/k of volume pv does not exist"):
        await world.volumes.set_up(a_pod(claim_volume()))
    world.lookup.secrets["s/k"] = {"a": b"b"}
    await world.volumes.set_up(a_pod(claim_volume()))
    assert world.driver.calls("NodeStageVolume")[0]["secrets"] == {"a": "b"}


# -- growing -----------------------------------------------------------------------------------------------------------


def growing(world: World, name: str = "pv", state: str = "NodeResizePending") -> None:
    volume, claim = world.lookup.volumes[name], world.lookup.claims[f"default/{name}"]
    spec = msgspec.structs.replace(volume.spec, capacity={"storage": "2Gi"})
    world.lookup.volumes[name] = msgspec.structs.replace(volume, spec=spec)
    status = PersistentVolumeClaimStatus(
        phase="Bound",
        capacity={"storage": "1Gi"},
        allocated_resource_statuses={"storage": state},
        conditions=(
            Condition(type="FileSystemResizePending", status="True"),
            Condition(type="ModifyingVolume", status="False"),
        ),
    )
    world.lookup.claims[f"default/{name}"] = msgspec.structs.replace(claim, status=status)


@pytest.mark.parametrize(("name", "devices"), [("pv", []), ("raw", ["data"])])
async def test_a_volume_that_grew_is_grown_under_the_running_pod(world: World, name: str, devices: list[str]) -> None:
    pod = a_pod(claim_volume(name), devices=devices)
    await world.volumes.set_up(pod)
    await world.volumes.refresh(pod)
    assert world.driver.calls("NodeExpandVolume") == []
    growing(world, name)
    await world.volumes.refresh(pod)
    request = world.driver.calls("NodeExpandVolume")[0]
    assert request["capacity_range"] == {"required_bytes": 2 * 1024**3}
    assert request["volume_path"] == world.driver.calls("NodePublishVolume")[0]["target_path"]
    assert request["staging_target_path"] == world.driver.calls("NodeStageVolume")[0]["staging_target_path"]
    status = world.lookup.claims[f"default/{name}"].status
    assert status.capacity == {"storage": "2Gi"} and not status.allocated_resource_statuses
    assert [each.type for each in status.conditions] == ["ModifyingVolume"]
    assert [reason for reason, _ in world.warnings] == ["FileSystemResizeSuccessful"]
    await world.volumes.refresh(pod)
    assert len(world.driver.calls("NodeExpandVolume")) == 1


async def test_a_volume_that_grew_while_no_pod_had_it_is_grown_with_the_next_one(world: World) -> None:
    growing(world, state="NodeResizeInProgress")
    await world.volumes.set_up(a_pod(claim_volume()))
    assert world.lookup.claims["default/pv"].status.capacity == {"storage": "2Gi"}


@pytest.mark.parametrize(
    ("code", "state"), [(Code.OUT_OF_RANGE, "NodeResizeInfeasible"), (Code.INTERNAL, "NodeResizeInProgress")]
)
async def test_a_growth_that_the_driver_refuses_is_told_and_does_not_stop_the_pod(
    world: World, code: Code, state: str
) -> None:
    pod = a_pod(claim_volume())
    await world.volumes.set_up(pod)
    growing(world)
    world.driver.refusals.append(RpcError(code, "cannot"))
    await world.volumes.refresh(pod)
    status = world.lookup.claims["default/pv"].status
    assert status.capacity == {"storage": "1Gi"} and status.allocated_resource_statuses == {"storage": state}
    assert "cannot" in next(each.message for each in status.conditions if each.type == "NodeResizeError")
    assert [reason for reason, _ in world.warnings] == ["VolumeResizeFailed"]
    if code is Code.INTERNAL:
        await world.volumes.refresh(pod)
        assert world.lookup.claims["default/pv"].status.capacity == {"storage": "2Gi"}


# -- dying -------------------------------------------------------------------------------------------------------------


class DyingCalls(InProcess):
    """The process dies before or after one of the calls to the driver."""

    def __init__(self, driver: TinyDriver, tick: Any) -> None:
        super().__init__(driver)
        self._tick = tick

    async def call(self, method: str, request: Any, *, timeout: float = 0.0) -> dict[str, Any]:  # noqa: ASYNC109
        self._tick()
        answer = await super().call(method, request)
        self._tick()
        return answer


def dying_after(world: World, steps: int) -> None:
    left = [steps]

    def tick() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Died

    world.drivers = Registered(world.driver, DyingCalls(world.driver, tick))
    world.restarted(dying_hands(world.host, steps, tick=tick))
    world.drivers = world.registered


def everything() -> Pod:
    return a_pod(claim_volume(name="a"), claim_volume("raw", name="b"), inline("c"), devices=["b"], group=42)


@pytest.mark.parametrize("then", ["goes on", "is gone"])
async def test_dying_at_any_step_of_setting_up_loses_and_leaves_nothing(tmp_path: Path, then: str) -> None:
    for steps in range(1, 200):
        world = World(tmp_path / str(steps), volume_lifecycle_modes=("Persistent", "Ephemeral"))
        other, pod = a_pod(claim_volume()), everything()
        if steps % 2:
            await world.volumes.set_up(other)
        dying_after(world, steps)
        died = False
        try:
            await world.volumes.set_up(pod)
        except Died:
            died = True
        world.restarted()
        if then == "goes on":
            prepared = await world.volumes.set_up(pod)
            assert all(world.driver.hands.is_shown(prepared[name].path) for name in ("a", "c"))
            assert prepared["b"].number is not None
            assert world.ownership.given[prepared["a"].path] == 42
        for uid in await world.volumes.leftovers():
            if uid != other.metadata.uid:
                await world.volumes.tear_down(uid)
        if steps % 2:
            assert [*world.driver.published.values()] == ["handle/1"], f"died at step {steps}"
            await world.volumes.tear_down(other.metadata.uid)
        assert world.driver.holds == [], f"died at step {steps}"
        assert world.left() == [], f"died at step {steps}"
        if not died:
            assert steps > 25
            return
    pytest.fail("it never came to its end")


async def test_dying_at_any_step_of_tearing_down_takes_everything_away_in_the_end(tmp_path: Path) -> None:
    for steps in range(1, 200):
        world = World(tmp_path / str(steps), volume_lifecycle_modes=("Persistent", "Ephemeral"))
        other, pod = a_pod(claim_volume()), everything()
        await world.volumes.set_up(pod)
        if steps % 2:
            await world.volumes.set_up(other)
        dying_after(world, steps)
        died = False
        try:
            await world.volumes.tear_down(pod.metadata.uid)
        except Died:
            died = True
        world.restarted()
        for uid in await world.volumes.leftovers():
            if uid != other.metadata.uid:
                await world.volumes.tear_down(uid)
        if steps % 2:
            assert [*world.driver.published.values()] == ["handle/1"], f"died at step {steps}"
            await world.volumes.tear_down(other.metadata.uid)
        assert world.driver.holds == [], f"died at step {steps}"
        assert world.left() == [], f"died at step {steps}"
        if not died:
            assert steps > 25
            return
    pytest.fail("it never came to its end")


async def test_a_machine_shut_down_without_its_drivers_has_nothing_mounted_and_they_hear_of_it_later(
    world: World,
) -> None:
    world.terms(volume_lifecycle_modes=("Persistent", "Ephemeral"))
    pod, other = everything(), a_pod(claim_volume())
    for each in (pod, other):
        await world.volumes.set_up(each)
    await Teardown.below(world.volumes.layout, host=world.host).tear_down(pod.metadata.uid)
    assert world.driver.hands.is_shown(Path(world.driver.staged["handle/1"]))  # the other has it
    await Teardown.below(world.volumes.layout, host=world.host).tear_down(other.metadata.uid)
    root = world.volumes.layout.root
    assert not [mount for mount in world.machine.mounted if root in mount.mount_point.parents]
    assert await world.volumes.leftovers() == frozenset()
    world.driver.published.clear()  # the machine was off
    await world.restarted().sweep("another.example.com")
    assert {*world.driver.staged} == {"handle/1", "handle/raw"}
    await world.volumes.sweep(NAME)
    assert world.driver.holds == []
    assert world.left() == []


async def test_what_a_pod_has_is_not_swept(world: World) -> None:
    pods = [a_pod(claim_volume()), a_pod(claim_volume("raw"), devices=["data"])]
    for pod in pods:
        await world.volumes.set_up(pod)
    await world.restarted().sweep(NAME)
    assert {*world.driver.staged} == {"handle/1", "handle/raw"}
    assert world.driver.calls("NodeUnstageVolume") == []
