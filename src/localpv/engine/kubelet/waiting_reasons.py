"""Why a container does not run: each is a waiting reason of its status, and a message for people."""

from __future__ import annotations

from localpv import errors


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
