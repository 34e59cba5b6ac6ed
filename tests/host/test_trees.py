"""A directory volume is emptied, and nothing outside it is ever touched."""

# ruff: noqa: ASYNC220, ASYNC221 - a test may wait for its own tools

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import trees as trees_module
from localpv.host.model.methods import Progress
from localpv.host.openat import Numbers
from localpv.host.trees import KernelTrees
from localpv.testing.waiting import PATIENCE_SECONDS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "disks"
    (folder / "vol").mkdir(parents=True)
    return folder


@pytest.mark.seed("CLN-8")
async def test_everything_in_a_volume_is_removed_and_the_volume_stays(trees: KernelTrees, folder: Path) -> None:
    volume = folder / "vol"
    (volume / "a" / "b").mkdir(parents=True)
    (volume / "a" / "b" / "file").write_text("secret")
    (volume / ".hidden").write_text("secret")
    os.mkfifo(volume / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(volume / "socket"))
    os.mknod(volume / "null", 0o20666, os.makedev(1, 3))
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b" ", b"x" * 255):
        (volume / os.fsdecode(name)).write_text("secret")

    assert await trees.empty(volume, inside=folder) == 12
    assert os.listdir(volume) == []


async def test_links_are_removed_and_what_they_lead_to_stays(trees: KernelTrees, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (folder / "vol" / "link").symlink_to(outside)
    (folder / "vol" / "file-link").symlink_to(outside / "precious")
    os.link(outside / "precious", folder / "vol" / "hard")

    await trees.empty(folder / "vol", inside=folder)

    assert os.listdir(folder / "vol") == []
    assert (outside / "precious").read_text() == "precious"


async def test_a_volume_that_became_a_link_is_not_entered(trees: KernelTrees, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (folder / "vol").rmdir()
    (folder / "vol").symlink_to(outside)

    with pytest.raises(errors.OutsideFolder):
        await trees.empty(folder / "vol", inside=folder)
    assert (outside / "precious").exists()


async def test_a_folder_on_the_way_that_became_a_link_is_not_entered(
    trees: KernelTrees, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "vol").mkdir(parents=True)
    (outside / "vol" / "precious").write_text("precious")
    (folder / "way").symlink_to(outside)

    with pytest.raises(errors.OutsideFolder):
        await trees.empty(folder / "way" / "vol", inside=folder)
    assert (outside / "vol" / "precious").exists()


async def test_directories_swapped_for_links_during_the_deletion_are_not_followed(
    trees: KernelTrees, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    volume = folder / "vol"
    for number in range(300):
        (volume / f"d{number}").mkdir()
        for file in range(5):
            (volume / f"d{number}" / f"f{file}").touch()
    # Swaps a directory for a link and back as fast as it can while the volume is being emptied.
    script = (
        "import os, sys\nn = 0\n"
        "while True:\n    n = (n + 7) % 300\n    d = sys.argv[1] + f'/d{n}'\n"
        "    try:\n        os.rename(d, d + '.away'); os.symlink(sys.argv[2], d)\n    except OSError: pass\n"
        "    try:\n        os.unlink(d); os.rename(d + '.away', d)\n    except OSError: pass\n"
    )
    with subprocess.Popen(["python3", "-c", script, str(volume), str(outside)]) as attacker:
        try:
            for _ in range(3):
                try:
                    await trees.empty(volume, inside=folder)
                except errors.HostError:
                    continue
        finally:
            attacker.kill()
    assert (outside / "precious").read_text() == "precious"


async def test_a_file_that_becomes_a_directory_while_it_is_deleted_goes_with_all_that_is_in_it(
    trees: KernelTrees, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume, unlink, swapped = folder / "vol", os.unlink, []

    def swap_first(name: str, *, dir_fd: int) -> None:
        if name == "file" and not swapped:
            swapped.append(name)
            unlink(volume / "file")
            (volume / "file").mkdir()
            (volume / "file" / "inside").write_text("secret")
        unlink(name, dir_fd=dir_fd)

    (volume / "file").write_text("secret")
    monkeypatch.setattr(os, "unlink", swap_first)
    assert await trees.empty(volume, inside=folder) == 2
    assert swapped and os.listdir(volume) == []


async def test_nothing_is_removed_while_something_is_mounted_below(
    trees: KernelTrees, folder: Path, mount: Callable[..., None]
) -> None:
    (folder / "vol" / "file").touch()
    (folder / "vol" / "sub").mkdir()
    mount("-t", "tmpfs", "none", folder / "vol" / "sub")
    (folder / "vol" / "sub" / "precious").touch()

    with pytest.raises(errors.DeviceBusy):
        await trees.empty(folder / "vol", inside=folder)
    assert (folder / "vol" / "sub" / "precious").exists()
    assert (folder / "vol" / "file").exists()


@pytest.mark.parametrize("with_openat2", [True, False])
async def test_a_mount_that_comes_after_the_look_is_not_entered(
    folder: Path, tmp_path: Path, mount: Callable[..., None], monkeypatch: pytest.MonkeyPatch, with_openat2: bool
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (folder / "vol" / "a" / "sub").mkdir(parents=True)
    # A bind mount of the same file system: the number of the device alone would not tell.
    mount("--bind", outside, folder / "vol" / "a" / "sub")
    monkeypatch.setattr(trees_module.openat, "_usable", with_openat2)

    root = os.open(folder / "vol", os.O_RDONLY)
    try:
        with pytest.raises(errors.DeviceBusy):
            trees_module.empty_directory(root, trees_module.Control())
    finally:
        os.close(root)
    assert (outside / "precious").exists()


async def test_a_path_beside_or_above_the_folder_is_refused(trees: KernelTrees, folder: Path, tmp_path: Path) -> None:
    beside = tmp_path / "disks2"
    beside.mkdir()
    (beside / "precious").touch()
    for path in (beside, folder, folder / ".." / "disks2", tmp_path, Path("/"), Path(f"{folder}/./vol/..")):
        with pytest.raises(errors.OutsideFolder):
            await trees.empty(path, inside=folder)
    with pytest.raises(errors.OutsideFolder):
        await trees.empty(beside, inside=Path("/"))
    assert (beside / "precious").exists()


async def test_immutable_and_append_only_files_and_directories_are_removed(trees: KernelTrees, folder: Path) -> None:
    (folder / "vol" / "dir").mkdir()
    (folder / "vol" / "dir" / "file").touch()
    (folder / "vol" / "log").touch()
    subprocess.run(["chattr", "+i", folder / "vol" / "dir" / "file", folder / "vol" / "dir"], check=True)
    subprocess.run(["chattr", "+a", folder / "vol" / "log"], check=True)
    subprocess.run(["chattr", "+i", folder / "vol"], check=True)
    try:
        await trees.empty(folder / "vol", inside=folder)
    finally:
        subprocess.run(["chattr", "-R", "-ia", folder / "vol"], check=False)
    assert os.listdir(folder / "vol") == []


async def test_a_tree_deeper_than_any_path_is_removed(trees: KernelTrees, folder: Path) -> None:
    fd = os.open(folder / "vol", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=fd)
        below = os.open("deep", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)

    assert await trees.empty(folder / "vol", inside=folder) == 3001
    assert os.listdir(folder / "vol") == []


@pytest.mark.parametrize("files", [2, 3, 4, 6])
async def test_more_files_and_directories_than_are_read_at_once_are_removed(
    trees: KernelTrees, folder: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    monkeypatch.setattr(trees_module, "BATCH", 3)
    for number in range(files):
        (folder / "vol" / f"f{number}").touch()
        (folder / "vol" / f"d{number}" / "below" / "sub").mkdir(parents=True)
        for below in range(files):
            (folder / "vol" / f"d{number}" / "below" / f"f{below}").touch()
            (folder / "vol" / f"d{number}" / "below" / f"d{below}").mkdir()
    assert await trees.empty(folder / "vol", inside=folder) == files * (1 + 3 + 2 * files)
    assert os.listdir(folder / "vol") == []


@pytest.mark.parametrize("files", [3, 4, 7])
async def test_more_files_than_are_read_at_once_are_removed_where_no_directory_is(
    trees: KernelTrees, folder: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    monkeypatch.setattr(trees_module, "BATCH", 3)
    for number in range(files):
        (folder / "vol" / f"f{number}").touch()
    assert await trees.empty(folder / "vol", inside=folder) == files
    assert os.listdir(folder / "vol") == []


async def test_directory_that_is_filled_again_and_again_is_given_up(
    trees: KernelTrees, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmdir, filled = os.rmdir, []

    def fill_first(name: str, *, dir_fd: int) -> None:
        filled.append(name)
        os.close(os.open(f"{name}/new", os.O_CREAT | os.O_WRONLY, dir_fd=dir_fd))
        rmdir(name, dir_fd=dir_fd)

    (folder / "vol" / "dir").mkdir()
    monkeypatch.setattr(trees_module, "ROUNDS", 5)
    monkeypatch.setattr(os, "rmdir", fill_first)
    with pytest.raises(errors.NotClean, match="dir cannot be removed: Directory not empty"):
        await trees.empty(folder / "vol", inside=folder)
    assert len(filled) == 1 + 5 + 1


async def test_lost_and_found_stays_empty_and_closed(
    trees: KernelTrees, folder: Path, make_disk: Callable[..., Path], mount: Callable[..., None]
) -> None:
    device = make_disk()
    subprocess.run(["mkfs.ext4", "-q", str(device)], check=True)
    mount(device, folder / "vol")
    (folder / "vol" / "lost+found" / "hidden").mkdir()
    os.chown(folder / "vol" / "lost+found", 1000, 1000)
    os.setxattr(folder / "vol", "user.note", b"from the last tenant")
    (folder / "vol" / "file").touch()

    await trees.empty(folder / "vol", inside=folder)

    assert os.listdir(folder / "vol") == ["lost+found"]
    assert os.listdir(folder / "vol" / "lost+found") == []
    assert os.stat(folder / "vol" / "lost+found").st_uid == 0
    assert os.listxattr(folder / "vol") == []


async def test_a_cancelled_deletion_stops_and_can_be_begun_again(
    trees: KernelTrees, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        os.close(os.open(folder / "vol" / str(number), os.O_CREAT | os.O_WRONLY))
    loop, unlink = asyncio.get_running_loop(), os.unlink
    begun, go_on = asyncio.Event(), threading.Event()

    def waits_once(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        if not go_on.is_set():
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(os, "unlink", waits_once)
    told: list[Progress] = []
    deletion = asyncio.create_task(trees.empty(folder / "vol", inside=folder, on_progress=told.append))
    await begun.wait()
    deletion.cancel()
    loop.call_later(0, go_on.set)  # after the turn in which the deletion hears that it is cancelled
    with pytest.raises(asyncio.CancelledError):
        await deletion
    left = len(os.listdir(folder / "vol"))
    await asyncio.sleep(0.1)
    assert len(os.listdir(folder / "vol")) == left > 0
    monkeypatch.undo()
    assert await trees.empty(folder / "vol", inside=folder, on_progress=told.append) == left
    assert told


async def test_a_command_that_leaves_something_is_not_believed(trees: KernelTrees, folder: Path) -> None:
    (folder / "vol" / "file").touch()
    with pytest.raises(errors.NotClean):
        await trees.empty_with(["true"], folder / "vol", inside=folder)
    await trees.empty_with(["sh", "-c", 'rm "$LOCAL_PV_FILESYSTEM"/file'], folder / "vol", inside=folder)
    assert os.listdir(folder / "vol") == []


async def test_lost_and_found_is_kept_at_the_top_of_a_file_system_alone(
    trees: KernelTrees, folder: Path, make_disk: Callable[..., Path], mount: Callable[..., None]
) -> None:
    (folder / "vol" / "lost+found").mkdir()
    with pytest.raises(errors.NotClean, match=r"lost\+found"):
        await trees.empty_with(["true"], folder / "vol", inside=folder)
    await trees.empty(folder / "vol", inside=folder)
    assert os.listdir(folder / "vol") == []

    device = make_disk()
    subprocess.run(["mkfs.ext4", "-q", str(device)], check=True)
    mount(device, folder / "vol")
    os.chown(folder / "vol" / "lost+found", 1000, 1000)
    await trees.empty_with(["true"], folder / "vol", inside=folder)
    assert os.listdir(folder / "vol") == ["lost+found"]
    assert os.stat(folder / "vol" / "lost+found").st_uid == 0


def numbers(path: Path) -> Numbers:
    fd = os.open(path, os.O_RDONLY)
    try:
        return Numbers.of(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize("how", ["mounted", "unmounted", "replaced"])
async def test_another_directory_in_its_place_at_the_last_moment_is_left_alone(
    trees: KernelTrees, folder: Path, mount: Callable[..., None], how: str, by_command: bool
) -> None:
    volume = folder / "vol"
    if how == "unmounted":
        (volume / "precious").write_text("of the machine")
        mount("-t", "tmpfs", "none", volume)
    expected = numbers(volume)
    if how == "unmounted":
        subprocess.run(["umount", volume], check=True)
    elif how == "mounted":
        mount("-t", "tmpfs", "none", volume)
    else:
        volume.rename(folder / "away")
        volume.mkdir()
    if how != "unmounted":
        (volume / "precious").write_text("of somebody")
    with pytest.raises(errors.DeviceChanged):
        if by_command:
            argv = ["sh", "-c", 'rm "$LOCAL_PV_FILESYSTEM"/*']
            await trees.empty_with(argv, volume, inside=folder, expected=expected)
        else:
            await trees.empty(volume, inside=folder, expected=expected)
    assert (volume / "precious").exists()
    await trees.empty(volume, inside=folder, expected=numbers(volume))
    assert os.listdir(volume) == []


async def test_mark_stays_while_anything_else_does(
    trees: KernelTrees, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an attribute, and all attributes go: but not before the files."""
    volume = folder / "vol"
    (volume / "file").touch()
    os.setxattr(volume, "trusted.localpv.volume", b"{}")
    monkeypatch.setattr(trees_module._Walk, "empty", lambda self, keep="": None)  # something keeps writing
    with pytest.raises(errors.NotClean):
        await trees.empty(volume, inside=folder)
    assert os.getxattr(volume, "trusted.localpv.volume") == b"{}"
