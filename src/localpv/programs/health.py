"""`/livez` and `/readyz` of a program, for the probes of its pod. Plain HTTP, and nothing worth hiding."""

from __future__ import annotations

import errno

from aiohttp import web

from localpv.errors import StartError

PATHS = ("/livez", "/readyz", "/healthz")


class Health:
    """Live from the start, ready when told so."""

    def __init__(self, listen: str) -> None:
        self._host, _, port = listen.rpartition(":")
        self._port = int(port)
        self._runner: web.ServerRunner | None = None
        self.ready = False

    async def start(self) -> None:
        runner = web.ServerRunner(web.Server(self._answer, access_log=None), handle_signals=False)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host.strip("[]") or None, self._port).start()
        except OSError as error:
            await runner.cleanup()
            busy = error.errno == errno.EADDRINUSE
            raise StartError(
                f"cannot answer probes at {self._host}:{self._port}: "
                + ("the address is in use" if busy else str(error.strerror)),
                hint="choose another address with --listen-address, or an empty one for no probes",
            ) from error
        self._runner = runner

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path not in PATHS:
            return web.Response(text="not found\n", status=404)
        if request.path == "/readyz" and not self.ready:
            return web.Response(text="not ready yet\n", status=503)
        return web.Response(text="ok\n")
