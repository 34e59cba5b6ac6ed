"""aiohttp without the certificate authorities of the machine and without the library of C++.

Where it is imported aiohttp makes a TLS context with all authorities, for requests that bring none: 2.6 MB on a machine
that has the usual 140. API servers have an authority of their own, and who needs the machine's makes a context then.
The lists that it keeps its signals in have a variant in C++, whose library takes 1.5 MB; nothing is fast or slow by it.
"""

from __future__ import annotations

import os

__all__ = ["aiohttp"]

_WHILE_IMPORTING = {
    # Where OpenSSL is told which file has the authorities.
    "SSL_CERT_FILE": os.devnull,
    "FROZENLIST_NO_EXTENSIONS": "1",
}
_before = {name: os.environ.get(name) for name in _WHILE_IMPORTING}
os.environ.update(_WHILE_IMPORTING)
try:
    import aiohttp
finally:
    for _name, _value in _before.items():
        if _value is None:
            del os.environ[_name]
        else:
            os.environ[_name] = _value
