"""What a kubelet asks of a node: volumes staged, shown, grown and taken away, again and again, and after a crash."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.csi.driver import MIB, NODE, Driver

from localpv import errors
from localpv.csi.channel import Channel
from localpv.csi.status import Code, RpcError
from localpv.host import loop
from localpv.host.filesystems import KernelFileSystems

WRITER = "SINGLE_NODE_MULTI_WRITER"
ONCE = "SINGLE_NODE_SINGLE_WRITER"
SIZE = 320 * MIB


def mount(fs_type: str = "xfs", *, mode: str = WRITER, flags: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"mount": {"fs_type": fs_type, "mount_flags": list(flags)}, "access_mode": {"mode": mode}}


def block(mode: str = WRITER) -> dict[str, Any]:
    return {"block": {}, "access_mode": {"mode": mode}}


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def write(device: Path, data: bytes) -> None:
    with open(device, "r+b") as file:
        file.write(data)
        os.fsync(file.fileno())


class Kubelet:
    """Calls for one volume, with the paths that a kubelet has for it."""

    def __init__(self, driver: Driver, capability: dict[str, Any], volume_id: str) -> None:
        self.driver, self.capability, self.id = driver, capability, volume_id
        self.staging = driver.kubelet / "plugins/kubernetes.io/csi" / volume_id.replace("/", "-") / "globalmount"

    @classmethod
    async def volume(
        cls, driver: Driver, capability: dict[str, Any], *, size: int = SIZE, name: str = "pvc-1", **request: Any
    ) -> Kubelet:
        made = await driver.call(
            "CreateVolume",
            name=name,
            capacity_range={"required_bytes": size},
            volume_capabilities=[capability],
            **request,
        )
        return cls(driver, capability, made["volume"]["volume_id"])

    def target(self, pod: str) -> Path:
        return self.driver.kubelet / "pods" / pod / "volumes/kubernetes.io~csi/pvc-1/mount"

    async def stage(self, **request: Any) -> None:
        await self.driver.call(
            "NodeStageVolume",
            volume_id=self.id,
            staging_target_path=str(self.staging),
            volume_capability=self.capability,
            **request,
        )

    def publishing(self, pod: str, **request: Any) -> dict[str, Any]:
        return {
            "volume_id": self.id,
            "staging_target_path": str(self.staging),
            "target_path": str(self.target(pod)),
            "volume_capability": self.capability,
            **request,
        }

    async def publish(self, pod: str, **request: Any) -> Path:
        self.target(pod).parent.mkdir(parents=True, exist_ok=True)
        await self.driver.call("NodePublishVolume", **self.publishing(pod, **request))
        return self.target(pod)

    async def unpublish(self, pod: str) -> None:
        await self.driver.call("NodeUnpublishVolume", volume_id=self.id, target_path=str(self.target(pod)))

    async def unstage(self) -> None:
        await self.driver.call("NodeUnstageVolume", volume_id=self.id, staging_target_path=str(self.staging))

    async def gone(self) -> None:
        await self.driver.call("DeleteVolume", volume_id=self.id)

    def device(self) -> Path | None:
        name = self.id.split("/")[1]
        return loop.of_file(self.driver.folder / "disk" / "pool" / name / "data")


@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
async def test_a_volume_is_made_shown_and_goes_with_its_bytes(driver: Driver, fs_type: str) -> None:
    volume = await Kubelet.volume(driver, mount(fs_type))
    for _ in range(2):  # a kubelet repeats what it is not sure of
        await volume.stage()
        await volume.publish("a")
        await volume.publish("b", readonly=True)
    (volume.target("a") / "file").write_text("of a tenant")
    assert (volume.target("b") / "file").read_text() == "of a tenant"
    with pytest.raises(OSError, match="Read-only"):
        (volume.target("b") / "other").touch()
    assert _fs_type(volume.target("a")) == fs_type
    for _ in range(2):
        await volume.unpublish("a")
        await volume.unpublish("b")
        await volume.unstage()
    assert not volume.target("a").exists()
    assert volume.device() is None
    await volume.stage()
    assert (volume.staging / "file").read_text() == "of a tenant"
    assert await driver.refused("DeleteVolume", volume_id=volume.id) is Code.FAILED_PRECONDITION
    await volume.unstage()
    await volume.gone()
    assert (await driver.call("ListVolumes")).get("entries", []) == []


async def test_a_raw_volume_is_its_device(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, block(), size=8 * MIB)
    await volume.stage()
    target = await volume.publish("a")
    await volume.publish("a")
    assert target.is_block_device()
    assert target.stat().st_rdev == volume.device().stat().st_rdev  # type: ignore[union-attr]
    stats = await driver.call("NodeGetVolumeStats", volume_id=volume.id, volume_path=str(target))
    assert stats["usage"] == [{"unit": "BYTES", "total": 8 * MIB}]
    await volume.unpublish("a")
    assert not target.exists()
    await volume.unstage()
    assert volume.device() is None


async def test_the_node_says_how_full_a_volume_is_and_how_it_feels(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount())
    await volume.stage()
    target = await volume.publish("a")
    stats = await driver.call("NodeGetVolumeStats", volume_id=volume.id, volume_path=str(target))
    assert {usage["unit"] for usage in stats["usage"]} == {"BYTES", "INODES"}
    bytes_ = next(usage for usage in stats["usage"] if usage["unit"] == "BYTES")
    assert 0 < bytes_["total"] <= SIZE
    assert stats["volume_condition"] == {"message": "healthy"}
    elsewhere = driver.kubelet / "elsewhere"
    code = await driver.refused("NodeGetVolumeStats", volume_id=volume.id, volume_path=str(elsewhere))
    assert code is Code.NOT_FOUND


async def test_a_file_system_that_broke_is_told(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount("xfs"))
    await volume.stage()
    target = await volume.publish("a")
    run("xfs_io", "-x", "-c", "shutdown", str(target))
    stats = await driver.call("NodeGetVolumeStats", volume_id=volume.id, volume_path=str(target))
    assert stats == {
        "volume_condition": {"abnormal": True, "message": "its file system cannot be read: Input/output error"}
    }
    await volume.unpublish("a")
    await volume.unstage()


async def test_a_file_system_that_the_kernel_stopped_writing_to_is_told(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount("ext4"))
    await volume.stage()
    target = await volume.publish("a")
    where = {"volume_id": volume.id, "volume_publish_path": str(target)}
    healthy = {"volume_health": {"volume_id": volume.id}}
    assert await driver.call("NodeGetVolumeHealth", **where) == healthy
    device = volume.device()
    assert device is not None
    Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("1")  # as the kernel does it after an error
    run("mount", "-o", "remount,ro", str(volume.staging))
    told = await driver.call("NodeGetVolumeHealth", **where)
    assert told["volume_health"]["health_statuses"][0]["status"] == "DEGRADED"
    assert await driver.call("ControllerGetVolumeHealth", volume_id=volume.id) == healthy


@pytest.mark.parametrize("fs_type", ["xfs", "btrfs"])
async def test_a_volume_grows_while_it_is_used(driver: Driver, fs_type: str) -> None:
    volume = await Kubelet.volume(driver, mount(fs_type))
    await volume.stage()
    target = await volume.publish("a")
    before = _total(target)
    larger = {"required_bytes": 2 * SIZE}
    expand = {"volume_id": volume.id, "volume_path": str(target), "capacity_range": larger}
    assert await driver.refused("NodeExpandVolume", **expand) is Code.OUT_OF_RANGE
    answer = await driver.call("ControllerExpandVolume", volume_id=volume.id, capacity_range=larger)
    assert answer == {"capacity_bytes": 2 * SIZE, "node_expansion_required": True}
    for _ in range(2):
        assert await driver.call("NodeExpandVolume", **expand) == {"capacity_bytes": 2 * SIZE}
    assert _total(target) > before + SIZE // 2


@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
async def test_a_larger_clone_has_the_bytes_of_its_source_and_all_of_its_room(driver: Driver, fs_type: str) -> None:
    source = await Kubelet.volume(driver, mount(fs_type))
    await source.stage()
    (source.staging / "file").write_text("kept")
    if fs_type == "btrfs":
        await source.unstage()  # older kernels mount no second file system of the same UUID
    snapshot = await driver.call("CreateSnapshot", name="snapshot-1", source_volume_id=source.id)
    clone = await Kubelet.volume(
        driver,
        mount(fs_type),
        size=2 * SIZE,
        name="pvc-2",
        volume_content_source={"snapshot": {"snapshot_id": snapshot["snapshot"]["snapshot_id"]}},
    )
    await clone.stage()
    assert (clone.staging / "file").read_text() == "kept"
    assert _total(clone.staging) > SIZE * 3 // 2


async def test_read_write_once_pod_is_held_to_its_word(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount(mode=ONCE))
    await volume.stage()
    await volume.publish("a")
    await volume.publish("a")
    assert await driver.refused("NodePublishVolume", **volume.publishing("b")) is Code.FAILED_PRECONDITION
    await volume.unpublish("a")
    await volume.publish("b")


async def test_what_others_have_mounted_does_not_count_as_a_second_use(driver: Driver) -> None:
    """A kubelet binds parts of a volume to places of its own."""
    volume = await Kubelet.volume(driver, mount(mode=ONCE))
    await volume.stage()
    part = driver.kubelet / "sub-path"
    part.mkdir()
    run("mount", "--bind", str(volume.staging), str(part))
    await volume.publish("a")


async def test_a_volume_must_be_staged_before_it_is_shown(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount())
    assert await driver.refused("NodePublishVolume", **volume.publishing("a")) is Code.FAILED_PRECONDITION
    unstaged = volume.publishing("a", staging_target_path="")
    assert await driver.refused("NodePublishVolume", **unstaged) is Code.FAILED_PRECONDITION


@pytest.mark.parametrize("written", [b"data of a raw volume", b"\x55" * 4096])
async def test_what_is_not_blank_is_never_formatted(driver: Driver, written: bytes) -> None:
    raw = await Kubelet.volume(driver, block(), size=SIZE)
    await raw.stage()
    target = await raw.publish("a")
    write(target, written)
    await raw.unpublish("a")
    await raw.unstage()
    same = Kubelet(driver, mount(), raw.id)
    with pytest.raises(RpcError, match="nothing is written over it"):
        await same.stage()
    await raw.stage()
    target = await raw.publish("a")
    assert target.read_bytes().startswith(written)


async def test_another_file_system_than_asked_for_is_not_written_over(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount("ext4"))
    await volume.stage()
    await volume.unstage()
    with pytest.raises(RpcError, match="holds ext4, not xfs"):
        await Kubelet(driver, mount("xfs"), volume.id).stage()


async def test_a_file_system_that_a_crash_left_unfinished_is_made_anew(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = await Kubelet.volume(driver, mount("ext4"))
    make = KernelFileSystems.make

    async def cut_short(self: KernelFileSystems, device: Any, *arguments: Any, **options: Any) -> None:
        write(device.path, b"\x01" * 512)  # what a tool leaves that was killed before it came to the signature
        raise errors.HostError("killed")

    monkeypatch.setattr(KernelFileSystems, "make", cut_short)
    with pytest.raises(RpcError, match="killed"):
        await volume.stage()
    monkeypatch.setattr(KernelFileSystems, "make", make)
    await driver.restart()
    await volume.stage()
    assert _fs_type(volume.staging) == "ext4"


async def test_a_raw_use_in_between_ends_what_was_said_of_an_unfinished_file_system(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = await Kubelet.volume(driver, mount("ext4"))

    async def cut_short(self: KernelFileSystems, *arguments: Any, **options: Any) -> None:
        raise errors.HostError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(KernelFileSystems, "make", cut_short)
        with pytest.raises(RpcError, match="killed"):
            await volume.stage()
    raw = Kubelet(driver, block(), volume.id)
    await raw.stage()
    target = await raw.publish("a")
    write(target, b"precious")
    await raw.unpublish("a")
    await raw.unstage()
    with pytest.raises(RpcError, match="nothing is written over it"):
        await volume.stage()


async def test_all_goes_on_after_the_driver_has_died(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount(mode=ONCE))
    await volume.stage()
    target = await volume.publish("a")
    (target / "file").write_text("kept")
    await driver.restart()
    await volume.stage()
    await volume.publish("a")
    assert await driver.refused("NodePublishVolume", **volume.publishing("b")) is Code.FAILED_PRECONDITION
    assert (target / "file").read_text() == "kept"
    await volume.unpublish("a")
    await volume.unstage()


async def test_a_bind_that_a_crash_left_writable_becomes_read_only(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount())
    await volume.stage()
    target = volume.target("a")
    target.mkdir(parents=True)
    run("mount", "--bind", str(volume.staging), str(target))
    await volume.publish("a", readonly=True)
    with pytest.raises(OSError, match="Read-only"):
        (target / "file").touch()
    assert await driver.refused("NodePublishVolume", **volume.publishing("a")) is Code.ALREADY_EXISTS


async def test_what_is_not_the_volumes_is_not_unmounted(driver: Driver, place: Path) -> None:
    volume = await Kubelet.volume(driver, mount())
    foreign = place / "foreign"
    foreign.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", str(foreign))
    for method, field in (("NodeUnpublishVolume", "target_path"), ("NodeUnstageVolume", "staging_target_path")):
        for volume_id in (volume.id, "fast/pvc-unknown", "anything"):
            code = await driver.refused(method, volume_id=volume_id, **{field: str(foreign)})
            assert code is Code.FAILED_PRECONDITION
    for method in ("NodeStageVolume", "NodePublishVolume"):
        request = {**volume.publishing("a"), "target_path": str(foreign)}
        if method == "NodeStageVolume":
            request = {**request, "staging_target_path": str(foreign)}
            del request["target_path"]
        assert await driver.refused(method, **request) is Code.FAILED_PRECONDITION
    assert _fs_type(foreign) == "tmpfs"


@pytest.mark.parametrize("path", ["relative", "/a/../etc", "/", "/tmp/" + "x" * 5000])
async def test_paths_that_could_mean_anything_are_refused(driver: Driver, path: str) -> None:
    volume = await Kubelet.volume(driver, mount())
    staging = {"volume_id": volume.id, "volume_capability": mount(), "staging_target_path": path}
    assert await driver.refused("NodeStageVolume", **staging) is Code.INVALID_ARGUMENT
    publishing = volume.publishing("a", target_path=path)
    assert await driver.refused("NodePublishVolume", **publishing) is Code.INVALID_ARGUMENT
    for method, field in (("NodeUnpublishVolume", "target_path"), ("NodeUnstageVolume", "staging_target_path")):
        assert await driver.refused(method, volume_id=volume.id, **{field: path}) is Code.INVALID_ARGUMENT


async def test_nothing_is_mounted_through_a_link(driver: Driver, place: Path) -> None:
    volume = await Kubelet.volume(driver, mount())
    await volume.stage()
    (place / "precious").mkdir()
    link = volume.target("a")
    link.parent.mkdir(parents=True)
    link.symlink_to(place / "precious")
    assert await driver.refused("NodePublishVolume", **volume.publishing("a")) is Code.INVALID_ARGUMENT
    assert not os.path.ismount(place / "precious")


@pytest.mark.parametrize(
    "capability",
    [
        {},
        {"mount": {}},
        {"access_mode": {"mode": WRITER}},
        {"mount": {"fs_type": "ntfs"}, "access_mode": {"mode": WRITER}},
        {"mount": {"volume_mount_group": "5"}, "access_mode": {"mode": WRITER}},
        {"mount": {}, "access_mode": {"mode": "MULTI_NODE_MULTI_WRITER"}},
        {"mount": {}, "access_mode": {"mode": 77}},
    ],
)
async def test_what_a_volume_cannot_be_used_as_is_refused(driver: Driver, capability: dict[str, Any]) -> None:
    made = await Kubelet.volume(driver, mount())
    volume = Kubelet(driver, capability, made.id)
    with pytest.raises(RpcError) as raised:
        await volume.stage()
    assert raised.value.code is Code.INVALID_ARGUMENT


async def test_mount_options_and_options_of_mkfs_reach_the_tools(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount("ext4", flags=("noatime", "nodiscard")))
    await volume.stage(volume_context={"mkfsOptions": "-b 4096 -L mylabel"})
    line = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(volume.staging) in line)
    assert "noatime" in line
    device = volume.device()
    assert device is not None
    assert 'LABEL="mylabel"' in run("blkid", "-p", "-s", "LABEL", str(device))


@pytest.mark.parametrize("options", ["-d /etc", "/dev/sda", "label", "-L " * 100])
async def test_options_of_mkfs_name_no_file(driver: Driver, options: str) -> None:
    volume = await Kubelet.volume(driver, mount("ext4"))
    with pytest.raises(RpcError) as raised:
        await volume.stage(volume_context={"mkfsOptions": options})
    assert raised.value.code is Code.INVALID_ARGUMENT


async def test_calls_for_one_volume_come_one_after_the_other(driver: Driver) -> None:
    volume = await Kubelet.volume(driver, mount())
    await asyncio.gather(*(volume.stage() for _ in range(4)))
    pods = [f"pod-{number}" for number in range(8)]
    await asyncio.gather(*(volume.publish(pod) for pod in pods))
    await asyncio.gather(*(volume.unpublish(pod) for pod in pods))
    await volume.unstage()


async def test_a_call_whose_caller_has_gone_is_finished_all_the_same(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = await Kubelet.volume(driver, mount("ext4"))
    begun, go_on = asyncio.Event(), asyncio.Event()
    make = KernelFileSystems.make

    async def slow(self: KernelFileSystems, *arguments: Any, **options: Any) -> None:
        begun.set()
        await go_on.wait()
        await make(self, *arguments, **options)

    monkeypatch.setattr(KernelFileSystems, "make", slow)
    monkeypatch.setattr("localpv.agent.csi.operations.WAIT_SECONDS", 0.1)
    first = asyncio.create_task(volume.stage())
    await begun.wait()
    first.cancel()
    with pytest.raises(RpcError) as raised:
        await volume.stage()
    assert raised.value.code is Code.ABORTED
    go_on.set()
    monkeypatch.setattr("localpv.agent.csi.operations.WAIT_SECONDS", 60)
    await volume.stage()
    assert _fs_type(volume.staging) == "ext4"


async def test_a_kubelet_is_told_who_the_driver_is_and_where(driver: Driver) -> None:
    registry = driver.kubelet / "plugins_registry"
    asking = Channel(registry / "localpv.dev-reg.sock")
    told = await asking.call("/pluginregistration.Registration/GetInfo", {})
    assert told == {
        "type": "CSIPlugin",
        "name": "localpv.dev",
        "endpoint": str(driver.plugin.socket),
        "supported_versions": ["1.0.0"],
    }
    status = {"plugin_registered": True}
    assert await asking.call("/pluginregistration.Registration/NotifyRegistrationStatus", status) == {}
    await asking.close()
    info = await driver.call("NodeGetInfo")
    assert info == {"node_id": NODE, "accessible_topology": {"segments": {"topology.localpv.dev/node": NODE}}}


def _total(at: Path) -> int:
    found = os.statvfs(at)
    return found.f_blocks * found.f_frsize


def _fs_type(at: Path) -> str:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return next((line.split(" - ")[1].split(" ")[0] for line in reversed(lines) if line.split(" ")[4] == str(at)), "")
