"""Where the configuration comes from, and that a wrong one never takes the place of a right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap
from localpv.api.kinds.meta import ObjectMeta
from localpv.config import environment, reading, sources
from localpv.config.reading import Loaded
from localpv.config.settings import Configuration

ONE = "fast: {hostDir: /mnt/fast}\n"
TWO = "fast: {hostDir: /mnt/fast, fsType: xfs}\nslow: {hostDir: /mnt/slow}\n"


def read(text: str) -> Loaded:
    return reading.read({"storageClassMap": text})


def config_of(text: str) -> Configuration:
    loaded = read(text)
    assert loaded.config is not None
    return loaded.config


def mounted(folder: Path, version: str, **texts: str) -> None:
    """Put a ConfigMap into a folder the way a kubelet does: a snapshot, a link to it, and links to the keys."""
    snapshot = folder / f"..{version}"
    snapshot.mkdir()
    for key, text in texts.items():
        (snapshot / key).write_text(text)
        if not (folder / key).is_symlink():
            (folder / key).symlink_to(Path("..data") / key)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(snapshot.name)
    fresh.rename(folder / "..data")


def test_folder_with_plain_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "storageClassMap").write_text(ONE)
    (tmp_path / ".swp").write_text("not a key")
    (tmp_path / "folder").mkdir()
    assert sources.from_folder(tmp_path) == Loaded(config_of(ONE))


def test_mounted_config_map_is_read_as_one_version(tmp_path: Path) -> None:
    mounted(tmp_path, "first", storageClassMap=ONE, useAlphaAPI="true")
    mounted(tmp_path, "second", storageClassMap=TWO)
    # The key that is gone leaves a dangling link behind until the kubelet removes it.
    assert (tmp_path / "useAlphaAPI").is_symlink()
    assert sources.from_folder(tmp_path) == Loaded(config_of(TWO))


def test_folder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    loaded = sources.from_folder(tmp_path / "nowhere")
    assert loaded.config is None
    assert "no such folder" in str(loaded.problems[0])


@pytest.mark.parametrize(
    ("content", "problem"), [(b"\xff\xfe", "is not UTF-8"), (b"#" * (sources.LARGEST_FILE + 1), "has more than")]
)
def test_file_that_is_no_text_is_a_problem(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "storageClassMap").write_text(ONE)
    (tmp_path / "labelsForPV").write_bytes(content)
    loaded = sources.from_folder(tmp_path)
    assert loaded.config is None
    assert [each.place for each in loaded.problems] == ["labelsForPV"]
    assert problem in loaded.problems[0].message


def test_config_map_object_is_read() -> None:
    meta = ObjectMeta(name="c", namespace="n")
    assert sources.from_config_map(ConfigMap(metadata=meta, data={"storageClassMap": ONE})) == read(ONE)
    loaded = sources.from_config_map(ConfigMap(metadata=meta, binary_data={"storageClassMap": "AA=="}))
    assert [str(problem) for problem in loaded.problems] == ["storageClassMap: must be text, but is in binaryData"]


def test_first_good_configuration_comes_into_force() -> None:
    verdict = sources.succeed(None, read(ONE))
    assert verdict.config == config_of(ONE)
    assert verdict.changed and verdict.added == {"fast"}


def test_wrong_configuration_leaves_the_last_good_one_in_force() -> None:
    verdict = sources.succeed(config_of(ONE), read("fast: {hostDri: /mnt/fast}"))
    assert verdict.config == config_of(ONE)
    assert not verdict.changed
    assert [problem.place for problem in verdict.problems] == ["storageClassMap.fast.hostDri", "storageClassMap.fast"]


def test_wrong_configuration_at_the_start_leaves_none() -> None:
    assert sources.succeed(None, read("fast:")).config is None


def test_removed_and_altered_classes_are_told() -> None:
    verdict = sources.succeed(config_of(TWO), read(ONE))
    assert verdict.config == config_of(ONE)
    assert (verdict.added, verdict.removed, verdict.altered) == (frozenset(), {"slow"}, {"fast"})


def test_same_configuration_written_otherwise_changes_nothing() -> None:
    assert not sources.succeed(
        config_of(ONE), read("fast:\n  hostDir: '/mnt/fast/'\n  accessMode: ReadWriteOnce")
    ).changed


@pytest.mark.seed("CFG-2")
def test_node_is_named_by_the_environment() -> None:
    told = environment.read({"MY_NODE_NAME": "node-1", "MY_NAMESPACE": "storage", "VOLUME_CONFIG_NAME": "mine"})
    assert (told.node_name, told.namespace, told.volume_config) == ("node-1", "storage", "mine")
    assert environment.job_image({"JOB_CONTAINER_IMAGE": "i"}) == "i"


@pytest.mark.seed("CFG-2")
@pytest.mark.parametrize("variables", [{}, {"MY_NODE_NAME": ""}, {"MY_NODE_NAME": "Node_1"}])
def test_nothing_starts_without_the_name_of_the_node(variables: dict[str, str]) -> None:
    with pytest.raises(errors.ConfigurationError, match="MY_NODE_NAME"):
        environment.read(variables)
