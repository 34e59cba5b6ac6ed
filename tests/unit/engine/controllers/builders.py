"""Objects as the controllers of workloads read them, as small as they may be."""

from __future__ import annotations

from typing import Any

from localpv.api.kinds.containers import ContainerStatus
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import Pod, PodCondition, PodSpec, PodStatus
from localpv.api.kinds.workloads import (
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    ReplicaSet,
    ReplicaSetSpec,
    RollingUpdate,
    StatefulSet,
    StatefulSetSpec,
    UpdateStrategy,
)
from localpv.engine.controllers import rollouts

SPACE = "default"


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=SPACE, uid=f"uid-{name}", **more)


def a_pod(
    name: str, *, phase: str = "Running", ready_since: str = "", node: str = "n", restarts: int = 0, **more: Any
) -> Pod:
    conditions = (PodCondition(type="Ready", status="True", last_transition_time=ready_since),) if ready_since else ()
    return Pod(
        metadata=meta(name, **more),
        spec=PodSpec(node_name=node),
        status=PodStatus(
            phase=phase, conditions=conditions, container_statuses=_containers(restarts) if restarts else ()
        ),
    )


def _containers(restarts: int) -> tuple[ContainerStatus, ...]:
    return (ContainerStatus(name="main", restart_count=restarts),)


def a_deployment(
    replicas: int,
    *,
    surge: int | str = 1,
    unavailable: int | str = 0,
    strategy: str = rollouts.ROLLING,
    image: str = "new",
) -> Deployment:
    rolling = RollingUpdate(max_surge=surge, max_unavailable=unavailable) if strategy == rollouts.ROLLING else None
    return Deployment(
        metadata=meta("web", generation=1),
        spec=DeploymentSpec(
            replicas=replicas,
            template=a_template(image),
            strategy=UpdateStrategy(type=strategy, rolling_update=rolling),
        ),
    )


def a_template(image: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web", **labels}}, "spec": {"containers": [{"image": image}]}}


def a_replica_set(
    image: str,
    replicas: int,
    *,
    available: int = 0,
    age: int = 0,
    annotations: dict[str, str] | None = None,
    actual: int | None = None,
) -> ReplicaSet:
    """A set of an image; the higher the age, the older."""
    return ReplicaSet(
        metadata=meta(
            f"web-{image}",
            creation_timestamp=f"2030-01-01T00:{59 - age:02}:00Z",
            annotations=annotations or {},
        ),
        spec=ReplicaSetSpec(replicas=replicas, template=a_template(image, **{"pod-template-hash": image})),
        status={"replicas": replicas if actual is None else actual, "availableReplicas": available},
    )


def a_stateful_set(replicas: int = 1, **spec: Any) -> StatefulSet:
    return StatefulSet(metadata=meta("db"), spec=StatefulSetSpec(replicas=replicas, **spec))


def a_job(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    return Job(metadata=meta("work"), spec=JobSpec(**spec), status=status or {})
