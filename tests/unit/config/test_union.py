"""Classes of the ConfigMap and of LocalStorages together."""

from __future__ import annotations

from localpv.config import union
from localpv.config.globs import NamePattern
from localpv.config.settings import ClassSettings, Configuration
from localpv.config.values import Problem

LINKS = "/dev/disk/kubernetes-local-storage"


def a_class(name: str, folder: str, **more: object) -> ClassSettings:
    return ClassSettings(name=name, host_dir=folder, mount_dir=folder, **more)  # type: ignore[arg-type]


def of_storage(name: str) -> ClassSettings:
    return a_class(name, f"{LINKS}/{name}/block", from_local_storage=True)


def test_both_sources_are_one_configuration() -> None:
    own = Configuration(classes={"plain": a_class("plain", "/mnt/plain")}, cleanings_at_once=7)
    found = union.united(own, {"fast": of_storage("fast")})

    assert found.problems == ()
    assert found.config is not None
    assert set(found.config.classes) == {"plain", "fast"}
    assert found.config.cleanings_at_once == 7


def test_class_that_the_config_map_has_too_is_the_config_maps_and_that_is_said() -> None:
    own = Configuration(classes={"fast": a_class("fast", "/mnt/fast")})
    found = union.united(own, {"fast": of_storage("fast"), "slow": of_storage("slow")})

    assert found.config is not None
    assert found.config.classes["fast"] == own.classes["fast"]
    assert "slow" in found.config.classes
    assert [str(each) for each in found.problems] == [
        "LocalStorage class fast: storageClassMap.fast has this class already"
    ]


def test_directory_that_the_config_map_has_in_another_class_is_not_offered_twice() -> None:
    own = Configuration(classes={"all": a_class("all", f"{LINKS}/fast", name_pattern=NamePattern("*"))})
    found = union.united(own, {"fast": of_storage("fast")}, [Problem("file", "is damaged")])

    assert found.config == own
    first, second = map(str, found.problems)
    assert first == "file: is damaged"
    assert "lies inside" in second
