"""`localpv translate`: what goes to standard output, what to standard error, and how it ends."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner, Result

from localpv.cli.translate import translate
from localpv.errors import ConfigurationError

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  volumes:
  - name: disk
    localVolume: {type: disk}
"""
PATH = POD.replace("{type: disk}", "{type: disk, path: /mnt/x}")
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def run(*words: str, text: str = "") -> Result:
    return CliRunner().invoke(translate, [*words], input=text)


def test_manifest_from_a_pipe_goes_on_translated() -> None:
    done = run("-f", "-", text=POD)
    assert done.exit_code == 0
    assert "ephemeral" in yaml.safe_load(done.stdout)["spec"]["volumes"][0]
    assert done.stderr == "pod/one: volume disk: localVolume is now an ephemeral volume of class local-ssd\n"


def test_files_follow_each_other_as_documents(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(POD)
    second.write_text(OTHER.rstrip("\n"))
    done = run("-f", str(first), "--filename", str(second))
    assert [document["kind"] for document in yaml.safe_load_all(done.stdout)] == ["Pod", "ConfigMap"]


def test_what_could_not_be_done_is_named_and_ends_with_an_error() -> None:
    done = run("-f", "-", text=f"{PATH}---\n{OTHER}")
    assert isinstance(done.exception, ConfigurationError) and "1 thing" in str(done.exception)
    assert done.stdout == f"{PATH}---\n{OTHER}", "and the text is printed all the same"
    assert "pod/one: NOT DONE: volume disk" in done.stderr and "path" in done.stderr


def test_file_that_is_not_there_is_named() -> None:
    done = run("-f", "nowhere.yaml")
    assert isinstance(done.exception, ConfigurationError) and "nowhere.yaml" in str(done.exception)
