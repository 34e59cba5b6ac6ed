"""The pods of a namespace, and what a node would say about them, said by a test."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.contract import builders, wire
from tests.contract.spaces import Space

T = TypeVar("T")
Object = dict[str, Any]

APPS = "apps/v1"
BATCH = "batch/v1"

HARMLESS = {
    "daemonsets": "revisionHistoryLimit",
    "deployments": "revisionHistoryLimit",
    "statefulsets": "revisionHistoryLimit",
    "replicasets": "minReadySeconds",
}
"""A field of the spec that can grow by one without changing anything in these tests."""


def template(*, labels: dict[str, str] | None = None, image: str = "registry.invalid/app:1", **spec: Any) -> Object:
    """A template of pods that no scheduler takes."""
    return {
        "metadata": {"labels": labels or {"app": "demo"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": image}], **spec},
    }


def workload(kind: str, name: str, **spec: Any) -> Object:
    return {
        "apiVersion": APPS,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "demo"}}, "template": template(), **spec},
    }


def job(name: str, **spec: Any) -> Object:
    pods = {"spec": {**template()["spec"], "restartPolicy": "Never"}}
    return {"apiVersion": BATCH, "kind": "Job", "metadata": {"name": name}, "spec": {"template": pods, **spec}}


def claim_template(name: str = "data") -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "workloads",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


class Gone(AssertionError):
    """There is no such pod."""


@dataclass(frozen=True, slots=True)
class Crew:
    api: wire.Api
    space: Space

    # Reading.

    def pods(self, labels: str = "") -> list[Object]:
        """All pods that are not being deleted, oldest first."""
        params = {"labelSelector": labels} if labels else {}
        found = self.api.get(self.space.core("pods"), **params)["items"]
        alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(alive, key=lambda pod: (pod["metadata"]["creationTimestamp"], name_of(pod)))

    def names(self, labels: str = "") -> list[str]:
        return sorted(map(name_of, self.pods(labels)))

    def claims(self) -> dict[str, Object]:
        found = self.api.get(self.space.core("persistentvolumeclaims"))["items"]
        return {name_of(claim): claim for claim in found}

    def get(self, plural: str, name: str, group: str = APPS) -> Object:
        found: Object = self.api.get(self.space.of(group, plural, name))
        return found

    def list(self, plural: str, group: str = APPS) -> list[Object]:
        found: list[Object] = self.api.get(self.space.of(group, plural))["items"]
        return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], name_of(each)))

    def status(self, plural: str, name: str, group: str = APPS) -> Object:
        found: Object = self.get(plural, name, group).get("status", {})
        return found

    def reasons(self, about: str) -> set[str]:
        """Of the events about an object."""
        events = self.api.get(self.space.core("events"), fieldSelector=f"involvedObject.name={about}")["items"]
        return {event["reason"] for event in events}

    # Waiting.

    def until(self, look: Callable[[], T], what: str) -> T:
        return wire.eventually(look, what)

    def until_pods(self, count: int, labels: str = "") -> list[Object]:
        def counted() -> tuple[list[Object]] | None:
            pods = self.pods(labels)
            return (pods,) if len(pods) == count else None

        (found,) = self.until(counted, f"{count} pods {labels}") or ([],)
        return found

    def until_names(self, *names: str) -> None:
        self.until(lambda: self.names() == sorted(names), f"pods {names}")

    def until_status(self, plural: str, name: str, group: str = APPS, **fields: Any) -> Object:
        """Wait for fields of a status; None stands for a field that is not there."""

        def as_wanted() -> Object | None:
            status = self.status(plural, name, group)
            return status if all(status.get(key) == value for key, value in fields.items()) else None

        return self.until(as_wanted, f"{plural}/{name} with {fields}") or {}

    # Fences: what a controller must not do, it has not done although it has looked.

    def fence(self, plural: str, name: str, **seen: Any) -> None:
        """Wait until the controller has looked at the object from begin to end once more.

        `seen` are fields of its status which show that it knows the pods as they are: until then it may put things off.
        """
        self.until_status(plural, name, **seen)
        field, present = HARMLESS[plural], self.get(plural, name)["spec"]
        changed = self.change(plural, name, {"spec": {field: present.get(field, 0) + 1}})
        later = changed["metadata"]["generation"]
        self.until(lambda: self.status(plural, name).get("observedGeneration", 0) >= later, f"{name} is looked at")

    def job_fence(self) -> None:
        """Wait until a Job that came later has run to its end: the others had their turn before it."""
        space = Space(name_of(self.api.post("/api/v1/namespaces", builders.namespace())))
        later = Crew(self.api, space)
        later.create(job("later"))
        (pod,) = later.until_pods(1)
        later.say(name_of(pod), "Succeeded")
        later.until(lambda: later.status("jobs", "later", BATCH).get("completionTime"), "a later job is complete")

    def garbage_fence(self, later: Object | None = None) -> None:
        """Wait until an object that came later has been collected, for its owner is not there.

        The collector hears of each kind on its own: only of what is of the same kind has it seen all that was before.
        """
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": str(uuid.uuid4())}
        made = later or builders.config_map()
        made["metadata"]["ownerReferences"] = [owner]
        name = name_of(self.create(made))
        plural, group = f"{made['kind'].lower()}s", made["apiVersion"]
        path = self.space.core(plural, name) if group == "v1" else self.space.of(group, plural, name)
        self.until(lambda: self.api.gone(path), "what has lost its owner is gone")

    # Doing what users do.

    def create(self, body: Object) -> Object:
        group = body["apiVersion"]
        plural = f"{body['kind'].lower()}s"
        path = self.space.core(plural) if group == "v1" else self.space.of(group, plural)
        made: Object = self.api.post(path, body)
        return made

    def change(self, plural: str, name: str, patch: Object, group: str = APPS) -> Object:
        changed: Object = self.api.merge(self.space.of(group, plural, name), patch)
        return changed

    def scale(self, plural: str, name: str, replicas: int) -> None:
        self.api.merge(self.space.of(APPS, plural, name, "scale"), {"spec": {"replicas": replicas}})

    def new_image(self, plural: str, name: str, image: str) -> None:
        containers = [{"name": "main", "image": image}]
        self.api.strategic(
            self.space.of(APPS, plural, name), {"spec": {"template": {"spec": {"containers": containers}}}}
        )

    def delete_pod(self, name: str) -> None:
        self.api.delete(self.space.core("pods", name))

    # Doing what a node does.

    def say(self, pod: str, phase: str, *, ready: bool = False, since: str | None = None, **status: Any) -> None:
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": since or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        body = {"status": {"phase": phase, "conditions": [condition], **status}}
        path = self.space.core("pods", pod, "status")
        answer = self.api.send("PATCH", path, body, content_type=wire.MERGE_PATCH)
        if answer.code == 404:
            raise Gone(pod)
        assert answer.code == 200, answer.raw

    def make_ready(self, *pods: str) -> None:
        for pod in pods:
            self.say(pod, "Running", ready=True)

    def make_all_ready(self, labels: str = "") -> None:
        for pod in self.pods(labels):
            if not is_ready(pod):
                # A controller may delete a pod between the two.
                with contextlib.suppress(Gone):
                    self.make_ready(name_of(pod))

    def bind(self, pod: str, node: str = "") -> None:
        """Give a pod a node, so that its deletion waits for one who never comes.

        The node is not there, and kube-controller-manager deletes all pods of such a node when it has known one of them
        for 40 s: those of tests before this one stay for longer, so every test has a node of its own.
        """
        node = node or f"nowhere-{self.space.name}"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"kind": "Node", "name": node},
        }
        self.api.post(self.space.core("pods", pod, "binding"), body)

    def finish_deletion(self, pod: str) -> None:
        self.api.delete(self.space.core("pods", pod), gracePeriodSeconds=0)


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def image_of(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])
