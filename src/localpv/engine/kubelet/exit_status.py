"""How containers ended: exit code, reason, and the last word that they left."""

from __future__ import annotations

import os
from pathlib import Path

from localpv.api import kinds
from localpv.engine.kubelet import logs
from localpv.engine.kubelet.records import End
from localpv.host.containers import Seen

MESSAGE_BYTES = 4096
LOG_BYTES, LOG_LINES = 2048, 80
"""The end of the log that stands for a message that a failed container did not leave."""

UNKNOWN = 255


def of(seen: Seen, *, message: str, now: str) -> End:
    """The end of a container that does not run any more."""
    if seen.exit_code is None:
        return End(exit_code=UNKNOWN, reason="Unknown", message="nobody saw how it ended", finished_at=now)
    reason = "Completed" if seen.exit_code == 0 else "Error"
    if seen.out_of_memory:
        reason = "OOMKilled"
    at = seen.ended_at.strftime("%Y-%m-%dT%H:%M:%SZ") if seen.ended_at is not None else now
    return End(exit_code=seen.exit_code, reason=reason, message=message, finished_at=at)


def message(folder: Path, log: Path, container: kinds.Container | None, *, failed: bool) -> str:
    """What the container wrote to its termination log, or the end of its log where the pod asks for that."""
    said = _tail(folder / "termination-log", MESSAGE_BYTES)
    policy = container.termination_message_policy if container is not None else ""
    if said or not failed or policy != "FallbackToLogsOnError":
        return said
    lines = logs.last_lines(log, LOG_LINES)
    return b"".join(lines)[-LOG_BYTES:].decode(errors="replace")


def _tail(path: Path, size: int) -> str:
    # A container may have put anything there; it is a plain file of ours, bound into the container, and stays one.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(fd, "rb") as file:
        return file.read(size).decode(errors="replace")
