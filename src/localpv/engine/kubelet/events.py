"""Events about pods, in the words that users of Kubernetes know, and why a container does not run.

Each such reason is a waiting reason in the status of the container, and a message for people.
"""

from __future__ import annotations

from localpv import errors
from localpv.api.kinds.containers import Container
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.volumes.volume_spec import NotReady
from localpv.observe.recorder import Recorder


class NotStarted(errors.LocalpvError):
    """The container could not be begun; it is tried again."""

    reason = "CreateContainerError"


class BadConfig(NotStarted):
    """Something that the container names is not there, or cannot be."""

    reason = "CreateContainerConfigError"


class NoImage(NotStarted):
    """The image is not on this machine, and none is fetched."""

    reason = "ErrImageNeverPull"


class RunError(NotStarted):
    """The runtime made the container and could not start its command."""

    reason = "RunContainerError"


class PodEvents:
    """Tells what happens to the containers of pods, each container by itself."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def pulled(self, pod: Pod, container: Container) -> None:
        said = f'Container image "{container.image}" already present on machine'
        self._recorder.event(pod, "Pulled", said, part=part_of(pod, container.name))

    def created(self, pod: Pod, name: str) -> None:
        self._recorder.event(pod, "Created", f"Created container: {name}", part=part_of(pod, name))

    def started(self, pod: Pod, name: str) -> None:
        self._recorder.event(pod, "Started", f"Started container {name}", part=part_of(pod, name))

    def killing(self, pod: Pod, name: str, message: str) -> None:
        self._recorder.event(pod, "Killing", message, part=part_of(pod, name))

    def failed(self, pod: Pod, name: str, error: NotStarted) -> None:
        part = part_of(pod, name)
        if isinstance(error, NoImage):
            self._recorder.event(pod, error.reason, error.message, warning=True, part=part)
            self._recorder.event(pod, "Failed", f"Error: {error.reason}", warning=True, part=part)
        else:
            said = f"Error: {error.message}; {error.hint}" if error.hint else f"Error: {error.message}"
            self._recorder.event(pod, "Failed", said, warning=True, part=part)

    def back_off(self, pod: Pod, name: str) -> None:
        said = f"Back-off restarting failed container {name} in pod {_whole_name(pod)}"
        self._recorder.event(pod, "BackOff", said, warning=True, part=part_of(pod, name))

    def not_ready(self, pod: Pod, error: NotReady) -> None:
        said = f"{error.message}; {error.hint}" if error.hint else error.message
        self._recorder.event(pod, error.event, said, warning=True)

    def whole(self, pod: Pod, reason: str, message: str) -> None:
        """The pod as a whole has failed."""
        self._recorder.event(pod, reason, message, warning=True)


def back_off_message(pod: Pod, name: str, delay: float) -> str:
    """Why a container waits to be started again."""
    minutes, seconds = divmod(int(delay), 60)
    told = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
    return f"back-off {told} restarting failed container={name} pod={_whole_name(pod)}"


def part_of(pod: Pod, name: str) -> str:
    """The path of a container in its pod."""
    lists = "initContainers" if any(one.name == name for one in pod.spec.init_containers) else "containers"
    return f"spec.{lists}{{{name}}}"


def _whole_name(pod: Pod) -> str:
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
