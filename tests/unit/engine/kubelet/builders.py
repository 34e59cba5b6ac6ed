"""Pods and records of containers for tests of decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.records import End, Record

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
BOOT = "boot"


def pod(*, restart: str = "Always", inits: tuple[Any, ...] = (), status: Any = None, **spec: Any) -> Pod:
    whole = {
        "metadata": {"name": "pod", "namespace": "default", "uid": "uid", "generation": 1},
        "spec": {
            "containers": [{"name": "main", "image": "busybox"}],
            "initContainers": list(inits),
            "restartPolicy": restart,
            "nodeName": "here",
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(whole, Pod)


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox", **fields}


def at(seconds: float) -> str:
    """A moment, so many seconds before now."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def record(
    name: str = "main",
    *,
    attempt: int = 0,
    code: int | None = None,
    began: float = 100.0,
    ended: float = 0.0,
    delay: float = 0.0,
    boot: str = BOOT,
    reason: str = "",
) -> Record:
    """An attempt that runs, or with a code one that has ended."""
    end = None
    if code is not None:
        end = End(exit_code=code, reason=reason or ("Error" if code else "Completed"), finished_at=at(ended))
    return Record(
        id=f"uid.{name}.{attempt}",
        pod_uid="uid",
        pod_name="pod",
        namespace="default",
        container=name,
        attempt=attempt,
        image="busybox",
        image_id="sha256:box",
        boot=boot,
        created_at=at(began),
        started_at=at(began),
        delay=delay,
        end=end,
    )
