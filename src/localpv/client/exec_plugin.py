"""Credentials from a program that the kubeconfig names (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from localpv import errors
from localpv.client.credentials import Headers, bearer, load_certificate
from localpv.runtime.clock import Clock

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
RUN_SECONDS = 60.0
EARLY = timedelta(seconds=30)
"""Credentials are renewed this long before they run out, so that no request carries ones that just did."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """The `exec` part of a user in a kubeconfig."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    api_version: str = API_VERSIONS[0]
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the program is told about the server, when provideClusterInfo is set."""

    where: str = ""
    """File and user, for messages."""


class FromPlugin:
    """Runs the program when there are no credentials, when they run out, and when they are refused."""

    def __init__(self, plugin: Plugin, *, tls: ssl.SSLContext | None, clock: Clock) -> None:
        self._plugin = plugin
        self._tls = tls
        self._clock = clock
        self._headers: Headers | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()

    async def headers(self) -> Headers:
        # The lock lets many requests that start at once share one run.
        async with self._running:
            if self._headers is None or (self._expires is not None and self._clock.now() >= self._expires - EARLY):
                self._headers = await self._renew()
            return self._headers

    def refused(self) -> bool:
        self._headers = None
        return True

    async def _renew(self) -> Headers:
        status = self._read(await self._run())
        self._expires = status.expiration_timestamp
        if status.client_certificate_data and self._tls is not None:
            try:
                load_certificate(
                    self._tls,
                    certificate=status.client_certificate_data.encode(),
                    key=status.client_key_data.encode(),
                )
            except ssl.SSLError as error:
                raise self._wrong(f"gave a client certificate that cannot be used: {error}") from error
        return bearer(status.token)

    def _read(self, output: bytes) -> _Status:
        try:
            answer = msgspec.json.decode(output, type=_Answer)
        except msgspec.MsgspecError as error:
            raise self._wrong(f"gave no ExecCredential: {error}") from error
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            raise self._wrong(
                f"gave {answer.kind} of {answer.api_version}, not ExecCredential of {self._plugin.api_version}"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._wrong("gave neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._wrong("gave only one of clientCertificateData and clientKeyData")
        return status

    async def _run(self) -> bytes:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={
                    **os.environ,
                    **plugin.environment,
                    "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
                },
            )
        except OSError as error:
            raise self._wrong(f"cannot be started: {error}") from error
        try:
            async with asyncio.timeout(RUN_SECONDS):
                output, complaints = await process.communicate()
        except TimeoutError as error:
            raise self._wrong(f"did not end within {RUN_SECONDS:g} s") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            said = complaints.decode(errors="replace").strip()[-500:]
            raise self._wrong(f"ended with exit code {process.returncode}: {said}")
        return output

    def _wrong(self, what: str) -> errors.ConfigurationError:
        return errors.ConfigurationError(
            f"the credential plugin {self._plugin.command} ({self._plugin.where}) {what}",
            hint=self._plugin.install_hint or "run the command by hand to see what it says",
        )
