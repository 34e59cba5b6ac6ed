"""Kinds that run pods, and how far they have come."""

from __future__ import annotations

from typing import Any

from localpv.api import selectors
from localpv.api.objects import Object
from localpv.engine.apiserver.tables import layout
from localpv.engine.apiserver.tables.layout import AGE, NAME, NONE, Layout, column, labels, wide

_JOB_STAGES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""Conditions in the order in which they count; the empty one stands for a job that is being deleted."""


def _stateful_set(workload: Object, now: float) -> list[Any]:
    return [
        workload["metadata"]["name"],
        _ready(workload),
        layout.age(workload, now),
        *_containers(workload),
    ]


def _deployment(workload: Object, now: float) -> list[Any]:
    status = workload.get("status") or {}
    return [
        workload["metadata"]["name"],
        _ready(workload),
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        layout.age(workload, now),
        *_containers(workload),
        str(selectors.from_object(workload["spec"].get("selector"))),
    ]


def _replica_set(workload: Object, now: float) -> list[Any]:
    status = workload.get("status") or {}
    return [
        workload["metadata"]["name"],
        workload["spec"].get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        layout.age(workload, now),
        *_containers(workload),
        _selector(workload),
    ]


def _replication_controller(workload: Object, now: float) -> list[Any]:
    *cells, _ = _replica_set({**workload, "spec": {**workload["spec"], "selector": None}}, now)
    return [*cells, labels(workload["spec"].get("selector"))]


def _pod_template(template: Object, now: float) -> list[Any]:
    found = template.get("template") or {}
    described = {"spec": {"template": found}}
    return [template["metadata"]["name"], *_containers(described), labels((found.get("metadata") or {}).get("labels"))]


def _daemon_set(workload: Object, now: float) -> list[Any]:
    status = workload.get("status") or {}
    return [
        workload["metadata"]["name"],
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels(_template(workload).get("nodeSelector")),
        layout.age(workload, now),
        *_containers(workload),
        _selector(workload),
    ]


def _controller_revision(revision: Object, now: float) -> list[Any]:
    owners = revision["metadata"].get("ownerReferences") or ()
    controller = next((owner for owner in owners if owner.get("controller")), None)
    shown = NONE
    if controller is not None:
        group = controller.get("apiVersion", "").rpartition("/")[0]
        kind = controller.get("kind", "").lower()
        shown = f"{kind}.{group}/{controller.get('name', '')}" if group else f"{kind}/{controller.get('name', '')}"
    return [revision["metadata"]["name"], shown, revision.get("revision", 0), layout.age(revision, now)]


def _job(job: Object, now: float) -> list[Any]:
    return [
        job["metadata"]["name"],
        _job_stage(job),
        _completions(job),
        _lasted(job, now),
        layout.age(job, now),
        *_containers(job),
        _selector(job),
    ]


def _job_stage(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    # The first condition of a type is the one that counts.
    holds = {each.get("type"): each.get("status") == "True" for each in reversed(conditions)}
    holds[""] = bool(job["metadata"].get("deletionTimestamp"))
    return next((shown for condition, shown in _JOB_STAGES if holds.get(condition)), "Running")


def _completions(job: Object) -> str:
    spec = job["spec"]
    succeeded = (job.get("status") or {}).get("succeeded", 0)
    wanted = spec.get("completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    # Workers on a common queue: one that succeeds means that the work is done.
    parallel = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _lasted(job: Object, now: float) -> str:
    status = job.get("status") or {}
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return layout.human((layout.moment(end) if end else now) - layout.moment(start))


def _ready(workload: Object) -> str:
    return f"{(workload.get('status') or {}).get('readyReplicas', 0)}/{workload['spec'].get('replicas', 1)}"


def _template(workload: Object) -> Object:
    found: Object = workload["spec"]["template"].get("spec") or {}
    return found


def _containers(workload: Object) -> tuple[str, str]:
    """Names and images."""
    containers = _template(workload).get("containers") or ()
    return ",".join(each["name"] for each in containers), ",".join(each.get("image", "") for each in containers)


def _selector(workload: Object) -> str:
    return str(selectors.from_object(workload["spec"].get("selector"))) or NONE


_CONTAINERS = wide("Containers", "Names of the containers in the template")
_IMAGES = wide("Images", "Images of the containers in the template")
_SELECTOR = wide("Selector", "Labels of the pods that belong to it")


def _number(name: str, description: str) -> Object:
    return column(name, description, type="integer")


_REPLICAS = [
    NAME,
    _number("Desired", "Pods wanted"),
    _number("Current", "Pods there are"),
    _number("Ready", "Pods that are ready"),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
]

LAYOUTS = {
    ("", "ReplicationController"): Layout(_REPLICAS, _replication_controller),
    ("", "PodTemplate"): Layout(
        [
            NAME,
            column("Containers", "Names of the containers"),
            column("Images", "Images of the containers"),
            column("Pod Labels", "Labels of the pods"),
        ],
        _pod_template,
    ),
    ("apps", "StatefulSet"): Layout(
        [NAME, column("Ready", "Ready pods of those wanted"), AGE, _CONTAINERS, _IMAGES],
        _stateful_set,
    ),
    ("apps", "Deployment"): Layout(
        [
            NAME,
            column("Ready", "Ready pods of those wanted"),
            column("Up-to-date", "Pods made from the present template"),
            column("Available", "Pods that have been ready for long enough"),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ],
        _deployment,
    ),
    ("apps", "ReplicaSet"): Layout(_REPLICAS, _replica_set),
    ("apps", "DaemonSet"): Layout(
        [
            NAME,
            _number("Desired", "Nodes that should run the pod"),
            _number("Current", "Nodes that run it and should"),
            _number("Ready", "Nodes on which it is ready"),
            _number("Up-to-date", "Nodes that run it as in the present template"),
            _number("Available", "Nodes on which it has been ready for long enough"),
            column("Node Selector", "Labels that a node must have to run the pod"),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ],
        _daemon_set,
    ),
    ("apps", "ControllerRevision"): Layout(
        [
            NAME,
            column("Controller", "The object whose template this was"),
            column("Revision", "Number of the revision; the largest is the newest"),
            AGE,
        ],
        _controller_revision,
    ),
    ("batch", "Job"): Layout(
        [
            NAME,
            column("Status", "How far the job has come"),
            column("Completions", "Pods that succeeded of those needed"),
            column("Duration", "How long the job took, or has been running"),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ],
        _job,
    ),
}
