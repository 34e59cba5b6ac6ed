"""What is done to volumes of pods, under the name that a kubelet has for it."""

from __future__ import annotations

from localpv.observe.registry import Registry

BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
"""A kubelet's, and two below: a bind mount takes milliseconds, a new file system on a large disk minutes."""

SUCCESS, FAILED = "success", "fail-unknown"


class StorageOperations:
    """Is told each operation on a volume of a pod after its end."""

    def __init__(self, registry: Registry) -> None:
        self.durations = registry.histogram(
            "storage_operation_duration_seconds",
            "How long operations on volumes of pods took, by plugin and operation; status is success or fail-unknown.",
            ("volume_plugin", "operation_name", "status", "migrated"),
            bounds=BOUNDS,
        )

    def operated(self, plugin: str, operation: str, *, seconds: float, failed: bool) -> None:
        self.durations.observe(seconds, plugin, operation, FAILED if failed else SUCCESS, "false")
