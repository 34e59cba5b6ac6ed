"""What `localpv reset` takes for its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv import errors
from localpv.programs import reset

FOREIGN = ("auth/passwords", "demo/film", "tls/key", "agent/log")


def fill(folder: Path) -> set[Path]:
    made = {folder / name for name in FOREIGN}
    for file in made:
        file.parent.mkdir(parents=True)
        file.write_text("somebody's")
    return made


async def test_folder_that_was_never_localpvs_is_left_alone(tmp_path: Path) -> None:
    """Somebody has named the wrong one, with --yes; names such as these are others' too."""
    files = fill(tmp_path)
    with pytest.raises(errors.ConfigurationError, match=r"auth, .*somebody else's"):
        await reset.look(tmp_path)
    with pytest.raises(errors.ConfigurationError):
        await reset.run(tmp_path, say=print)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize("left", ["localpv.db", "node/run-folder", ".localpv-reset"])
async def test_what_is_left_of_a_data_folder_goes(tmp_path: Path, left: str) -> None:
    data = tmp_path / "data"
    fill(data)
    (data / left).parent.mkdir(exist_ok=True)
    (data / left).touch()
    await reset.run(data, say=print)
    assert not data.exists()
