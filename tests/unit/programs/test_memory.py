"""What keeps an agent small still takes hold in this Python and this aiohttp."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from localpv.testing.waiting import PATIENCE_SECONDS

PRINTS_BUFFER = """
import asyncio
from asyncio import sslproto
from localpv.programs import memory
memory.use_small_buffers()

async def main():
    protocol = sslproto.SSLProtocol(
        asyncio.get_running_loop(), asyncio.Protocol(), __import__("ssl").create_default_context(), None
    )
    print(len(protocol.get_buffer(-1)) == memory.BUFFER_BYTES)

asyncio.run(main())
"""
PRINTS_AUTHORITIES = """
import os
import {module}
import aiohttp.connector
print(len(aiohttp.connector._SSL_CONTEXT_VERIFIED.get_ca_certs()), os.environ.get("SSL_CERT_FILE"))
"""


def said_by(program: str, **environment: str) -> str:
    """What a fresh interpreter prints: buffers and contexts are for a whole process."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return done.stdout.strip()


def test_tls_connections_have_small_buffers() -> None:
    assert said_by(PRINTS_BUFFER) == "True"


@pytest.mark.parametrize("module", ["localpv.client.http", "localpv.programs.apiserver", "localpv.programs.up"])
def test_aiohttp_brings_no_certificate_authorities_and_the_environment_stays_as_it_was(module: str) -> None:
    program = PRINTS_AUTHORITIES.format(module=module)
    assert said_by(program, SSL_CERT_FILE="/somewhere/else.pem") == "0 /somewhere/else.pem"


def test_agents_do_not_load_what_they_do_not_need() -> None:
    heavy = {
        "rich",
        "yaml",
        "cryptography",
        "aiohttp.web",
        "localpv.engine.apiserver",
        "localpv.manager.manager",
        "sqlite3",
    }
    loaded = said_by("import sys, localpv.programs.agent, localpv.client.http; print(*sys.modules)").split()
    assert heavy & set(loaded) == set()
