"""One short module per process: the only place where real parts are put together."""

# Before anything of a program imports aiohttp: it would load the certificate authorities of the machine.
from localpv.client import lazy_aiohttp as lazy_aiohttp
