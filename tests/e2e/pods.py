"""Pods of the tests: small ones that start fast, end at once, and are waited for with a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.contract import builders, wire
from tests.contract.spaces import Space

__all__ = ["Here", "Space"]

POD_SECONDS = 120.0
"""A pod takes 2 s on an idle machine; a busy one must not fail the tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """A namespace and the image of the pods in it."""

    api: wire.Api
    space: Space
    image: str

    def start(
        self, *command: str, image: str | None = None, spec: dict[str, Any] | None = None, **container: Any
    ) -> str:
        """Create a pod that runs one command once; its name."""
        main = self.container("main", *command, **{"image": image or self.image, **container})
        return self.create({"containers": [main], **(spec or {})})

    def container(self, name: str, *command: str, **more: Any) -> dict[str, Any]:
        """A container of the image that is there, which runs one command."""
        return {
            "name": name,
            "image": self.image,
            "imagePullPolicy": "Never",
            "command": list(command),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **more,
        }

    def create(self, spec: dict[str, Any]) -> str:
        """Create a pod that is not started again when it ends; its name."""
        whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
        pod = builders.pod(builders.unique("pod"), spec=whole)
        return str(self.api.post(self.space.core("pods"), pod)["metadata"]["name"])

    def get(self, name: str) -> Any:
        return self.api.get(self.space.core("pods", name))

    def claim(self, name: str) -> Any:
        return self.api.get(self.space.core("persistentvolumeclaims", name))

    def events(self, name: str, reason: str) -> list[Any]:
        """What was told about an object for a reason."""
        found = self.api.get(self.space.core("events"))["items"]
        return [one for one in found if one["involvedObject"].get("name") == name and one["reason"] == reason]

    def wait(self, name: str, *phases: str) -> Any:
        """The pod once it is in one of the phases."""
        return self.until(name, lambda pod: pod["status"].get("phase") in phases, f"is {' or '.join(phases)}")

    def until(self, name: str, right: Callable[[Any], Any], what: str) -> Any:
        """The pod once it is as it should be."""

        def look() -> Any:
            pod = self.get(name)
            return pod if right(pod) else None

        try:
            return wire.eventually(look, f"pod {name} {what}", within=POD_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._why(name)}") from None

    def until_told(self, name: str, reason: str, words: str) -> None:
        """Wait until an event about a pod says something.

        Another may come first: a scheduler that has not seen the claim yet, and a node that may not read it before the
        API server has seen that its pod needs it, say so, and try again.
        """

        def told(_: Any) -> bool:
            return any(words in event["message"] for event in self.events(name, reason))

        self.until(name, told, f"is told {reason}: {words}")

    def run(self, *command: str, **options: Any) -> tuple[Any, str]:
        """Run a pod to its successful end; the pod and what it printed."""
        name = self.start(*command, **options)
        pod = self.wait(name, "Succeeded", "Failed")
        log = self.log(name)
        assert pod["status"]["phase"] == "Succeeded", f"pod {name} failed: {log}\n{pod['status']}"
        return pod, log

    def log(self, name: str, **options: str) -> str:
        """What the pod, or one container of it, has printed."""
        return self.api.send("GET", self.space.core("pods", name, "log"), accept="*/*", **options).raw.decode()

    def until_says(self, name: str, text: str, **options: str) -> None:
        """Wait until a container has said this: one that runs has not begun with its script."""
        self.until(name, lambda _: text in self.log(name, **options), f"says {text!r}")

    def delete(self, name: str, *, grace: int = 1) -> None:
        """Delete a pod and wait until its node has taken it down."""
        path = self.space.core("pods", name)
        self.api.delete(path, gracePeriodSeconds=grace)
        wire.eventually(lambda: self.api.gone(path), f"pod {name} is gone", within=POD_SECONDS)

    def volume_on(
        self,
        node: str,
        path: str,
        *,
        mode: str = "Filesystem",
        size: str = "64Mi",
        fs_type: str = "",
        immediate: bool = False,
        access: str = "ReadWriteOnce",
    ) -> str:
        """A local volume on a node and a claim for it that waits for its first pod; the name of the claim."""
        name = builders.unique("disk")
        waits = {"volumeBindingMode": "Immediate" if immediate else "WaitForFirstConsumer"}
        self.api.post("/apis/storage.k8s.io/v1/storageclasses", builders.storage_class(name, **waits))
        volume = builders.local_volume(
            name,
            capacity={"storage": size},
            storageClassName=name,
            local={"path": path, **({"fsType": fs_type} if fs_type else {})},
            volumeMode=mode,
            accessModes=[access],
            nodeAffinity=builders.node_affinity(node),
            persistentVolumeReclaimPolicy="Retain",
        )
        self.api.post("/api/v1/persistentvolumes", volume)
        wanted = {"storageClassName": name, "volumeMode": mode, "accessModes": [access]}
        room = {"resources": {"requests": {"storage": size}}}
        self.api.post(self.space.core("persistentvolumeclaims"), builders.claim(name, **wanted, **room))
        return name

    def _why(self, name: str) -> str:
        pod = self.api.get(self.space.core("pods", name))
        told: Sequence[Any] = self.api.get(self.space.core("events"))["items"]
        lines = [f"{one['reason']}: {one.get('message')}" for one in told if one["involvedObject"].get("name") == name]
        return "\n".join([str(pod["status"]), *lines])


def claimed(claim: str) -> dict[str, Any]:
    """The volume of a pod that uses the claim."""
    return {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]}
