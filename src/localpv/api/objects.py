"""API objects as they travel: plain JSON dictionaries."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON. Absent and null mean the same once the server has taken it in."""


def now(*, after: int = 0) -> str:
    """The present time, or some seconds later, as creationTimestamp and its like carry it: UTC, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + after))


def now_micro() -> str:
    """The present time as MicroTime fields (leases, events) carry it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
