"""Kinds that make pods. Their templates are kept as they are written: a pod made from one must lose no field of it.

Statuses are kept whole for another reason: who writes one compares it with the one before and sends the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from localpv.api.kinds.meta import NOTHING, Kind, Part, resource_of
from localpv.api.resources import Resource

Share = int | str
"""A number of pods, or a percentage of them such as `25%`."""


class RollingUpdate(Part, frozen=True, kw_only=True):
    """How far a change of the template may go at a time; each kind has its own fields of these."""

    partition: int = 0
    max_surge: Share = 0
    max_unavailable: Share = 0


class UpdateStrategy(Part, frozen=True, kw_only=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class RetentionPolicy(Part, frozen=True, kw_only=True):
    """What becomes of the claims of a StatefulSet."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(Part, frozen=True, kw_only=True):
    start: int = 0


class StatefulSetSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    selector: Mapping[str, Any] = NOTHING
    service_name: str = ""
    template: Mapping[str, Any] = NOTHING
    volume_claim_templates: tuple[Mapping[str, Any], ...] = ()
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()
    persistent_volume_claim_retention_policy: RetentionPolicy = RetentionPolicy()
    ordinals: Ordinals = Ordinals()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0


class StatefulSet(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("StatefulSet", "apps")

    spec: StatefulSetSpec = StatefulSetSpec()
    status: Mapping[str, Any] = NOTHING


class ReplicaSetSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    selector: Mapping[str, Any] = NOTHING
    template: Mapping[str, Any] = NOTHING
    min_ready_seconds: int = 0


class ReplicaSet(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("ReplicaSet", "apps")

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: Mapping[str, Any] = NOTHING


class DeploymentSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    selector: Mapping[str, Any] = NOTHING
    template: Mapping[str, Any] = NOTHING
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int = 600


class Deployment(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Deployment", "apps")

    spec: DeploymentSpec = DeploymentSpec()
    status: Mapping[str, Any] = NOTHING


class DaemonSetSpec(Part, frozen=True, kw_only=True):
    selector: Mapping[str, Any] = NOTHING
    template: Mapping[str, Any] = NOTHING
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSet(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("DaemonSet", "apps")

    spec: DaemonSetSpec = DaemonSetSpec()
    status: Mapping[str, Any] = NOTHING


class ControllerRevision(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("ControllerRevision", "apps")

    data: Mapping[str, Any] = NOTHING
    revision: int = 0


class JobSpec(Part, frozen=True, kw_only=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = ""
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    selector: Mapping[str, Any] = NOTHING
    template: Mapping[str, Any] = NOTHING
    pod_replacement_policy: str = ""
    pod_failure_policy: Mapping[str, Any] | None = None
    success_policy: Mapping[str, Any] | None = None
    managed_by: str = ""


class Job(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = resource_of("Job", "batch")

    spec: JobSpec = JobSpec()
    status: Mapping[str, Any] = NOTHING
