"""Our own image, as it will run in clusters."""

from __future__ import annotations

from tests.e2e import pods
from tools.image import build as image

import localpv


def test_image_runs_localpv_as_root_unless_a_manifest_names_a_user(here: pods.Here, localpv_image: str) -> None:
    _, said = here.run(image=localpv_image, args=["--version"])
    assert localpv.__version__ in said

    _, said = here.run("sh", "-c", "id -u; localpv --version", image=localpv_image)
    assert said.startswith("0\n")


def test_image_has_the_tools_that_localpv_calls(here: pods.Here, localpv_image: str) -> None:
    tools = "lsblk wipefs blkdiscard findmnt mkfs.ext4 mkfs.xfs resize2fs xfs_growfs lvcreate udevadm hdparm nvme"
    # Each must start, too: a missing library shows only then.
    _, said = here.run(
        "sh",
        "-c",
        f"for tool in {tools}; do command -v $tool >/dev/null || echo missing $tool;"
        " for file in $(command -v $tool); do ldd $file | grep 'not found' && echo $tool; done; done; echo seen",
        image=localpv_image,
    )
    assert said == "seen\n"


def test_image_is_small_and_made_from_what_the_dockerfile_says() -> None:
    text = (image.PROJECT / "Dockerfile").read_text()

    assert "COPY tools/image/packages.txt tools/image/slim.sh" in text
    archive = image.archive_of_localpv()
    assert archive.stat().st_size < 250e6
    assert image.archive_of_localpv() == archive
