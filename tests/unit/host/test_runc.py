"""How containers are seen: what the runtime and the monitor leave on disk, at whichever moment one looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv.host import runc
from localpv.host.containers import Bundle
from localpv.host.runc import RuncContainers


def test_container_whose_monitor_ends_during_the_look_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle(id="one", folder=tmp_path / "bundle", log=tmp_path / "log")
    bundle.folder.mkdir()
    (tmp_path / "state" / "one").mkdir(parents=True)
    (tmp_path / "state" / "one" / "state.json").touch()
    (bundle.folder / "conmon.pid").write_text("4194000")

    def ends_just_now(pid: int, id_: str) -> bool:
        (bundle.folder / "exit").write_text("3")
        return False

    monkeypatch.setattr(runc, "_is_monitor", ends_just_now)
    seen = RuncContainers(state=tmp_path / "state").look(bundle)
    assert (seen.running, seen.exit_code) == (False, 3)
