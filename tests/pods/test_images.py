"""Images by the command, while the engine runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.pods.machine import Machine, main
from tests.unit.engine.kubelet import archives

from localpv.testing.waiting import PATIENCE_SECONDS


def image(machine: Machine, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "localpv", "image", "--data", str(machine.data), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def box(path: Path, **words: object) -> Path:
    """An image with a busybox of its own, two layers and a user."""
    program = next(one for one in (Path("/bin/busybox"), Path("/usr/bin/busybox")) if one.exists()).read_bytes()
    passwd = b"root:x:0:0::/:/bin/sh\napp:x:1234:2345::/home:/bin/sh\n"
    lower = archives.layer({"bin": None, "bin/busybox": program, "bin/sh": "busybox", "etc": None, "gone": b"x"})
    upper = archives.layer({"etc/passwd": passwd, "etc/group": b"team:x:77:app\n", ".wh.gone": b""})
    return archives.oci(path, [lower, upper], name="localhost/box:1", **words)


def test_imported_image_runs_as_it_says(machine: Machine, tmp_path: Path) -> None:
    one = {"name": "main", "image": "localhost/box:1"}
    machine.create({"containers": [one], "restartPolicy": "Never"}, "early")
    machine.until_waiting("early", "ErrImageNeverPull")
    script = "busybox id -u; busybox id -G; pwd; echo $WORD; test -e /gone || echo whited out"
    file = box(
        tmp_path / "box.tar", Entrypoint=["sh", "-c"], Cmd=[script], User="app", Env=["WORD=hi"], WorkingDir="/srv"
    )
    told = image(machine, "import", str(file))
    assert told.returncode == 0 and told.stdout.startswith("localhost/box:1 sha256:"), told.stderr
    machine.until_phase("early", "Succeeded")
    lines = machine.logs("early").splitlines()
    assert lines[0] == "1234" and set(lines[1].split()) == {"2345", "77"}
    assert lines[2:] == ["/srv", "hi", "whited out"]
    listed = image(machine, "list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["IMAGE", "busybox:latest", "localhost/box:1"]
    machine.delete("early")
    machine.eventually(machine.is_clean, "nothing is left")
    assert image(machine, "remove", "localhost/box:1").returncode == 0
    assert "localhost/box" not in image(machine, "list").stdout


def test_image_is_not_removed_from_under_a_container(machine: Machine, tmp_path: Path) -> None:
    image(machine, "import", str(box(tmp_path / "box.tar")))
    one = {"name": "main", "image": "localhost/box:1", "command": ["busybox", "sleep", "1000"]}
    machine.create({"containers": [one]}, "uses")
    pod = machine.until_ready("uses")
    assert main(pod)["image"] == "localhost/box:1"
    refused = image(machine, "remove", "localhost/box:1")
    assert refused.returncode == 1 and "a container runs from" in refused.stderr
    machine.delete("uses")
    machine.eventually(machine.is_clean, "nothing is left")
    assert image(machine, "remove", "localhost/box:1").returncode == 0


def test_command_says_what_is_wrong_with_a_file(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "nonsense"
    file.write_bytes(b"nonsense")
    told = image(machine, "import", str(file))
    assert told.returncode == 1 and "is no archive" in told.stderr
    assert "cannot be read" in image(machine, "import", str(tmp_path / "missing")).stderr
    assert "no image" in image(machine, "remove", "localhost/never:1").stderr
