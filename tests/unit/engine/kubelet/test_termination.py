"""The word with which a container is asked to end."""

from __future__ import annotations

import signal

import pytest

from localpv.engine.kubelet import termination


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", signal.SIGTERM),
        ("SIGQUIT", signal.SIGQUIT),
        ("quit", signal.SIGQUIT),
        ("3", signal.SIGQUIT),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3),
        ("SIGRTMAX-1", signal.SIGRTMAX - 1),
        ("SIGRTMIN+", signal.SIGTERM),
        ("SIGRTMAX+900", signal.SIGTERM),
        ("SIGNONE", signal.SIGTERM),
        ("0", signal.SIGTERM),
        ("4000", signal.SIGTERM),
    ],
)
def test_names_of_signals_are_read_as_images_write_them(name: str, number: int) -> None:
    assert termination.signal_number(name) == number
