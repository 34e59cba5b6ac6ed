"""Beside Kubernetes: the manager as its own process, of which the placer is a part."""

from __future__ import annotations

import contextlib
import selectors
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import engine_process, forked_programs
from tests.contract import custom, wire

from localpv.api import crds
from localpv.testing.waiting import PATIENCE_SECONDS

NO_DISKS = "placing-none:\n  hostDir: /nowhere\n  mountDir: /nowhere\n"


@contextlib.contextmanager
def beside(target: wire.Target) -> Iterator[None]:
    """The manager as long as the with-block lasts; nothing where `localpv up` is tested, which has the placer in it."""
    if target.log is not None:
        yield
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="localpv-placer-")))
        api = wire.Api(target, target.token)
        stack.callback(api.close)
        stack.callback(api.clean_up)
        for name in ("localdisks", "localpools", "poolvolumes", "poolsnapshots"):
            definition = crds.load(name)
            if api.gone(f"{custom.DEFINITIONS}/{definition['metadata']['name']}"):
                custom.define(api, definition)
        config = folder / "config"
        config.mkdir()
        (config / "storageClassMap").write_text(NO_DISKS)
        stack.enter_context(_manager(target, config, folder / "manager.log"))
        yield


@contextlib.contextmanager
def _manager(target: wire.Target, config: Path, log: Path) -> Iterator[None]:
    options = ("--kubeconfig", str(target.kubeconfig), "--config", str(config), "--namespace", "default")
    with log.open("w") as stderr:
        process = forked_programs.start("manager", *options, stderr=stderr)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            end = time.monotonic() + PATIENCE_SECONDS
            while not (ready := bool(selector.select(1.0))) and time.monotonic() < end and process.poll() is None:
                pass
        assert ready and process.poll() is None, log.read_text()
        yield
    finally:
        engine_process.stop(process)
