"""What every object has."""

from __future__ import annotations

import os

from localpv.api import objects


def test_a_child_of_a_process_gives_other_uids_than_it() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, objects.new_uid().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        theirs = told.read()
    os.waitpid(child, 0)
    assert theirs and theirs != objects.new_uid()
