"""What the runtime is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.kubelet.builders import container, pod

from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import bundle, environment
from localpv.engine.kubelet.bundle import Binding
from localpv.engine.kubelet.events import BadConfig
from localpv.engine.kubelet.images.store import Config
from localpv.engine.kubelet.security_context import User
from localpv.engine.kubelet.volumes.volume_spec import Prepared
from localpv.host.model.devices import DeviceNumber

DISK = Prepared(path=Path("/x"), name="disk", device=True, access="rwm", number=DeviceNumber(7, 3))
FIXED = Prepared(path=Path("/y"), name="fixed", device=True, read_only=True, access="r", number=DeviceNumber(8, 1))


def config(of: Pod, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "pod": of,
        "container": of.spec.containers[0],
        "id": "uid.main.0",
        "root": Path("/root"),
        "args": ["run"],
        "env": [],
        "working_dir": "",
        "user": User(uid=0, gid=0),
        "bindings": [],
        "devices": [],
        "sandbox": Path("/sandbox"),
        **more,
    }
    return bundle.config(bundle.Plan(**given))


@pytest.mark.seed("RAW-7")
def test_devices_are_denied_first_and_then_allowed_one_by_one() -> None:
    linux = config(pod(), devices=[("/dev/a", DISK), ("/dev/b", FIXED)])["linux"]
    assert linux["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "b", "major": 7, "minor": 3, "access": "rwm"},
        {"allow": True, "type": "b", "major": 8, "minor": 1, "access": "r"},
    ]
    assert [(one["path"], one["fileMode"]) for one in linux["devices"]] == [("/dev/a", 0o660), ("/dev/b", 0o440)]


def test_container_without_devices_is_denied_all() -> None:
    assert config(pod())["linux"]["resources"]["devices"] == [{"allow": False, "access": "rwm"}]


def test_namespaces_are_those_of_the_pod() -> None:
    found = {one["type"]: one.get("path", "") for one in config(pod())["linux"]["namespaces"]}
    assert found == {
        "mount": "",
        "cgroup": "",
        "pid": "",
        "network": "/sandbox/net",
        "uts": "/sandbox/uts",
        "ipc": "/sandbox/ipc",
    }
    outside = pod(hostNetwork=True, hostPID=True, hostIPC=True)
    assert [one["type"] for one in config(outside)["linux"]["namespaces"]] == ["mount", "cgroup"]


def test_mounts_go_from_the_top_down_and_keep_to_themselves() -> None:
    bindings = [
        Binding(source=Path("/deep"), target="/data/deep/er"),
        Binding(source=Path("/top"), target="/data", read_only=True),
    ]
    found = [one for one in config(pod(), bindings=bindings)["mounts"] if one["destination"].startswith("/data")]
    assert [one["destination"] for one in found] == ["/data", "/data/deep/er"]
    assert [one["options"] for one in found] == [("rbind", "rprivate", "ro"), ("rbind", "rprivate", "rw")]


def test_paths_of_the_kernel_are_hidden_unless_privileged() -> None:
    assert "/proc/keys" in config(pod())["linux"]["maskedPaths"]
    mighty = config(pod(containers=[container(securityContext={"privileged": True})]))
    assert "maskedPaths" not in mighty["linux"]
    assert mighty["linux"]["resources"]["devices"] == [{"allow": True, "access": "rwm"}]


def test_who_is_not_root_has_no_capabilities_of_his_own() -> None:
    process = config(pod(), user=User(uid=5, gid=5))["process"]
    assert process["capabilities"]["effective"] == [] and process["capabilities"]["bounding"]
    assert process["noNewPrivileges"] is False
    strict = pod(containers=[container(securityContext={"allowPrivilegeEscalation": False})])
    assert config(strict)["process"]["noNewPrivileges"] is True


def test_volume_is_used_as_what_it_is() -> None:
    folder = Prepared(path=Path("/f"), name="folder")
    volumes = {"disk": DISK, "folder": folder}
    assert bundle.volume_of(volumes, "folder", device=False) is folder
    with pytest.raises(BadConfig, match="volumeDevices, not in volumeMounts"):
        bundle.volume_of(volumes, "disk", device=False)
    with pytest.raises(BadConfig, match="volumeMounts, not in volumeDevices"):
        bundle.volume_of(volumes, "folder", device=True)
    with pytest.raises(BadConfig, match="cannot find volume"):
        bundle.volume_of(volumes, "other", device=True)


def test_limits_become_shares_quota_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "has_controller", lambda name: True)
    wanted = {"requests": {"cpu": "250m"}, "limits": {"cpu": "1500m", "memory": "64Mi"}}
    of = pod(containers=[container(resources=wanted)]).spec.containers[0]
    assert bundle._resources(of) == {
        "cpu": {"shares": 256, "quota": 150_000, "period": 100_000},
        "memory": {"limit": 64 * 1024 * 1024},
    }
    assert bundle._resources(pod().spec.containers[0]) == {"cpu": {"shares": 2}}


@pytest.mark.parametrize(
    ("command", "args", "found"),
    [
        ((), (), ["entry", "$(A)"]),
        (("own",), (), ["own"]),
        ((), ("$(A)", "x"), ["entry", "value", "x"]),
        (("own", "$$(A)"), ("$(B)",), ["own", "$(A)", "$(B)"]),
    ],
)
def test_command_and_args_replace_those_of_the_image(
    command: tuple[str, ...], args: tuple[str, ...], found: list[str]
) -> None:
    of = pod(containers=[container(command=command, args=args)]).spec.containers[0]
    image = Config(entrypoint=("entry",), cmd=("$(A)",))
    assert environment.command(of, image, {"A": "value"}) == found
