"""Programs are loaded without looking for garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Load modules here: they are made of reference circles that stay, and looking for others among them is a sixth of
    the processor time that loading takes. They are not looked at later either."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
