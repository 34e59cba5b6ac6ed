"""aiohttp without the certificate authorities of the machine.

Where it is imported aiohttp makes a TLS context with all of them, for requests that bring none: 2.6 MB on a machine
that has the usual 140. API servers have an authority of their own, and who needs the machine's makes a context then.
"""

from __future__ import annotations

import os

__all__ = ["aiohttp"]

_VARIABLE = "SSL_CERT_FILE"
"""Where OpenSSL is told which file has the authorities."""

_before = os.environ.get(_VARIABLE)
os.environ[_VARIABLE] = os.devnull
try:
    import aiohttp
finally:
    if _before is None:
        del os.environ[_VARIABLE]
    else:
        os.environ[_VARIABLE] = _before
