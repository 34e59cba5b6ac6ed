"""Files that come from the API."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.kubelet.volumes.world import Machine, a_pod

from localpv.api.kinds.cluster import Node, NodeStatus
from localpv.api.kinds.containers import (
    Container,
    FieldSelector,
    ResourceFieldSelector,
    ResourceRequirements,
    VolumeMount,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import (
    ConfigMapVolumeSource,
    DownwardAPIFile,
    DownwardAPIProjection,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    KeysProjection,
    KeyToPath,
    OtherSource,
    Pod,
    PodSpec,
    ProjectedVolumeSource,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from localpv.engine.kubelet import downward_api
from localpv.engine.kubelet.volumes import NotReady
from localpv.host.volume_files import File


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "node")
    found.lookup.config_maps["default/settings"] = {"a": b"1", "b": b"\xff\x00"}
    found.lookup.secrets["default/keys"] = {"key": b"secret"}
    return found


async def files_of(machine: Machine, volume: Volume, **pod: object) -> dict[str, File]:
    prepared = (await machine.volumes.set_up(a_pod(volume, **pod)))[volume.name]  # type: ignore[arg-type]
    assert prepared.read_only
    return dict(machine.file_sets.sets[prepared.path])


async def refused(machine: Machine, volume: Volume) -> NotReady:
    with pytest.raises(NotReady) as caught:
        await machine.volumes.set_up(a_pod(volume))
    return caught.value


async def test_every_key_becomes_a_file(machine: Machine) -> None:
    volume = Volume(name="v", config_map=ConfigMapVolumeSource(name="settings"))
    assert await files_of(machine, volume) == {
        "a": File(data=b"1", mode=0o644),
        "b": File(data=b"\xff\x00", mode=0o644),
    }
    volume = Volume(name="v", secret=SecretVolumeSource(secret_name="keys", default_mode=0o400))
    assert await files_of(machine, volume) == {"key": File(data=b"secret", mode=0o400)}


async def test_items_choose_keys_paths_and_modes(machine: Machine) -> None:
    items = (KeyToPath(key="a", path="deep/er", mode=0o600), KeyToPath(key="b", path="./plain"))
    source = ConfigMapVolumeSource(name="settings", items=items, default_mode=0o640)
    files = await files_of(machine, Volume(name="v", config_map=source))
    assert files == {"deep/er": File(data=b"1", mode=0o600), "plain": File(data=b"\xff\x00", mode=0o640)}


async def test_what_is_missing_is_told_unless_it_is_optional(machine: Machine) -> None:
    error = await refused(machine, Volume(name="v", config_map=ConfigMapVolumeSource(name="none")))
    assert error.reason == "SourceMissing" and "default/none" in error.message
    error = await refused(machine, Volume(name="v", secret=SecretVolumeSource(secret_name="none")))
    assert error.reason == "SourceMissing"
    items = (KeyToPath(key="nokey", path="x"),)
    source = ConfigMapVolumeSource(name="settings", items=items)
    assert (await refused(machine, Volume(name="v", config_map=source))).reason == "KeyMissing"
    optional = ConfigMapVolumeSource(name="settings", items=items, optional=True)
    assert await files_of(machine, Volume(name="v", config_map=optional)) == {}
    nothing = SecretVolumeSource(secret_name="none", optional=True)
    assert await files_of(machine, Volume(name="v", secret=nothing)) == {}


async def test_a_path_out_of_the_volume_is_refused(machine: Machine) -> None:
    items = (KeyToPath(key="a", path="../../etc/passwd"),)
    source = ConfigMapVolumeSource(name="settings", items=items)
    assert (await refused(machine, Volume(name="v", config_map=source))).reason == "PathOutside"


async def test_a_pod_is_told_about_itself(machine: Machine) -> None:
    machine.lookup.this_node = Node(
        metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"memory": "8Gi", "cpu": "4"})
    )
    container = Container(
        name="main",
        volume_mounts=(VolumeMount(name="v", mount_path="/v"),),
        resources=ResourceRequirements(requests={"cpu": "250m"}, limits={"cpu": "1500m"}),
    )

    def told(path: str, field: str = "", resource: str = "", divisor: str = "") -> DownwardAPIFile:
        return DownwardAPIFile(
            path=path,
            field_ref=FieldSelector(field_path=field) if field else None,
            resource_field_ref=ResourceFieldSelector(resource=resource, container_name="main", divisor=divisor)
            if resource
            else None,
        )

    items = (
        told("name", "metadata.name"),
        told("labels", "metadata.labels"),
        told("one", "metadata.labels['app']"),
        told("note", "metadata.annotations"),
        told("cores", resource="limits.cpu"),
        told("millis", resource="requests.cpu", divisor="1m"),
        told("memory", resource="limits.memory", divisor="1Mi"),
    )
    pod = Pod(
        metadata=ObjectMeta(
            name="web", namespace="default", uid="u", labels={"b": "2", "app": "x"}, annotations={"k": 'a "b"\n'}
        ),
        spec=PodSpec(
            containers=(container,),
            volumes=(Volume(name="v", downward_api=DownwardAPIVolumeSource(items=items)),),
        ),
    )
    path = (await machine.volumes.set_up(pod))["v"].path
    assert {name: file.data.decode() for name, file in machine.file_sets.sets[path].items()} == {
        "name": "web",
        "labels": 'app="x"\nb="2"',
        "one": "x",
        "note": 'k="a \\"b\\"\\n"',
        "cores": "2",
        "millis": "250",
        "memory": "8192",
    }


def test_text_is_quoted_as_kubernetes_does() -> None:
    assert downward_api.quoted('ü\t"\\\x00\u2028') == '"ü\\t\\"\\\\\\x00\\u2028"'


async def test_projected_parts_lie_together_and_a_token_is_private_and_renewed(machine: Machine) -> None:
    source = ProjectedVolumeSource(
        sources=(
            VolumeProjection(config_map=KeysProjection(name="settings")),
            VolumeProjection(secret=KeysProjection(name="keys", items=(KeyToPath(key="key", path="k"),))),
            VolumeProjection(
                downward_api=DownwardAPIProjection(
                    items=(DownwardAPIFile(path="ns", field_ref=FieldSelector(field_path="metadata.namespace")),)
                )
            ),
            VolumeProjection(
                service_account_token=ServiceAccountTokenProjection(
                    path="token", audience="vault", expiration_seconds=3600
                )
            ),
        ),
        default_mode=0o640,
    )
    pod = a_pod(Volume(name="v", projected=source), group=7)
    path = (await machine.volumes.set_up(pod))["v"].path
    files = machine.file_sets.sets[path]
    assert {name: file.data for name, file in files.items()} == {
        "a": b"1", "b": b"\xff\x00", "k": b"secret", "ns": b"default", "token": b"token-1"
    }  # fmt: skip
    assert (files["token"].mode, files["a"].mode) == (0o600, 0o640)
    assert machine.lookup.tokens == [(pod.metadata.name, "vault", 3600)]
    await machine.clock.advance(0.7 * 3600)
    await machine.volumes.set_up(pod)
    await machine.volumes.refresh(pod)
    assert len(machine.lookup.tokens) == 1
    await machine.clock.advance(0.15 * 3600)
    await machine.volumes.refresh(pod)
    assert machine.file_sets.sets[path]["token"].data == b"token-2"
    await machine.volumes.tear_down(pod.metadata.uid)
    assert machine.left() == []


async def test_secrets_stay_in_memory_and_configuration_does_not_need_to(machine: Machine) -> None:
    secret = Volume(name="s", secret=SecretVolumeSource(secret_name="keys"))
    config = Volume(name="c", config_map=ConfigMapVolumeSource(name="settings"))
    prepared = await machine.volumes.set_up(a_pod(secret, config))
    assert [mount.mount_point for mount in machine.machine.mounted] == [prepared["s"].path]
    assert machine.machine.mounted[0].fs_type == "tmpfs"


@pytest.mark.parametrize(
    ("volume", "word"),
    [
        (Volume(name="v", nfs=OtherSource()), "nfs"),
        (Volume(name="v", git_repo=OtherSource()), "gitRepo"),
        (Volume(name="v"), "unknown"),
        (Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="HugePages")), "HugePages"),
        (
            Volume(name="v", projected=ProjectedVolumeSource(sources=(VolumeProjection(),))),
            "projected",
        ),
    ],
)
async def test_what_is_not_served_is_refused_by_name(machine: Machine, volume: Volume, word: str) -> None:
    error = await refused(machine, volume)
    assert error.reason == "NotSupported" and word in error.message and error.hint


async def test_paths_of_the_node_are_what_the_pod_says(machine: Machine) -> None:
    machine.machine.make_folder("/srv")
    machine.machine.add_disk("/dev/sdb")
    machine.machine.hung.add(Path("/mnt/dead"))

    def asked(path: str, kind: str | None = None) -> Volume:
        return Volume(name="v", host_path=HostPathVolumeSource(path=path, type=kind))

    for volume in (asked("/srv"), asked("/srv", "Directory"), asked("/new", "DirectoryOrCreate"), asked("/new2")):
        assert volume.host_path is not None
        found = (await machine.volumes.set_up(a_pod(volume)))["v"]
        assert (found.path, found.device, found.read_only) == (Path(volume.host_path.path), False, False)
    for volume, reason in (
        (asked("/srv", "File"), "HostRefused"),
        (asked("/missing", "Directory"), "PathMissing"),
        (asked("/srv/../etc"), "InvalidPath"),
        (asked("/srv", "Nonsense"), "NotSupported"),
        (asked("/mnt/dead", "Directory"), "NoAnswer"),
    ):
        assert (await refused(machine, volume)).reason == reason


async def test_memory_is_as_large_as_the_least_limit(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    async def note(at: Path, *, size_bytes: int = 0, mode: int = 0o777) -> None:
        sizes.append(size_bytes)

    monkeypatch.setattr(machine.mounting, "mount_memory", note)
    for limit, memory in ((None, None), ("10Mi", None), ("10Mi", "4Mi"), (None, "4Mi")):
        source = EmptyDirVolumeSource(medium="Memory", size_limit=limit)
        resources = ResourceRequirements(limits={"memory": memory} if memory else {})
        container = Container(name="c", volume_mounts=(VolumeMount(name="v", mount_path="/v"),), resources=resources)
        pod = Pod(
            metadata=ObjectMeta(name="p", namespace="default", uid=f"u-{len(sizes)}"),
            spec=PodSpec(containers=(container,), volumes=(Volume(name="v", empty_dir=source),)),
        )
        await machine.volumes.set_up(pod)
    mib = 1024 * 1024
    assert sizes == [0, 10 * mib, 4 * mib, 4 * mib]
