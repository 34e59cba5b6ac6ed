"""Runs a localpv program and notes for size.py what it sends and, between two SIGUSR1, which modules it runs."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import urllib.parse
from pathlib import Path
from types import FrameType
from typing import Any

import localpv
from localpv.cli import main as cli
from localpv.client.http import HttpTransport

SOURCE = f"{Path(localpv.__file__).parent}/"
REQUESTS = os.open(os.environ["SIZE_PROBE_REQUESTS"], os.O_WRONLY | os.O_APPEND)
MODULES = Path(os.environ["SIZE_PROBE_MODULES"])

noting = False
seen: set[str] = set()


def called(frame: FrameType, event: str, argument: Any) -> None:
    if noting and event == "call":
        seen.add(frame.f_code.co_filename)


def mark(number: int, frame: FrameType | None) -> None:
    global noting
    if noting:
        noting = False
        names = sorted(name.removeprefix(SOURCE) for name in seen if name.startswith(SOURCE))
        finished = MODULES.with_suffix(".new")
        finished.write_text(json.dumps(names))
        finished.replace(MODULES)
    else:
        MODULES.touch()
        seen.clear()
        noting = True


def note(method: str, request: Any) -> None:
    chosen = {name: text for name, text in request.query.items() if name.endswith("Selector")}
    query = f"?{urllib.parse.urlencode(chosen)}" if chosen else ""
    os.write(REQUESTS, f"{time.monotonic():.6f} {method} {request.path}{query}\n".encode())


def observe(transport: Any, methods: tuple[str, ...] = ()) -> None:
    """Note what goes through a transport: requests when they have been answered, watches when they are opened."""
    ask, listen = transport.request, transport.stream

    async def request(self: Any, request: Any) -> Any:
        answer = await ask(self, request)
        if not methods or request.method in methods:
            note(request.method, request)
        return answer

    def stream(self: Any, request: Any) -> Any:
        note("WATCH", request)
        return listen(self, request)

    transport.request = request
    if not methods:
        transport.stream = stream


observe(HttpTransport)
if "up" in sys.argv[1:2]:
    from localpv.programs import in_process_transport

    observe(in_process_transport.InsideTransport, in_process_transport.WRITES)
signal.signal(signal.SIGUSR1, mark)
threading.setprofile(called)
sys.setprofile(called)
cli.main()
