"""GET of pods/log: what a container has written, and what it goes on to write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from localpv.api import fields, status
from localpv.api.objects import Object, now
from localpv.api.pod_logs import PodLogOptions
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.pod_access import PodAccess
from localpv.errors import BadRequest

_OPTIONS = "PodLogOptions"


def lines(call: Call, pod: Object, *, pods: PodAccess) -> AsyncIterator[bytes]:
    """The log that a call asks for, piece by piece."""
    return pods.logs(pod, container_of(pod, call.query.get("container", "")), options(call))


def options(call: Call) -> PodLogOptions:
    """Reads the options of the request; Invalid names the one that is wrong."""
    tail, limit, seconds = call.number("tailLines"), call.number("limitBytes"), call.number("sinceSeconds")
    if tail is not None and tail < 0:
        raise status.invalid_options(_OPTIONS, fields.invalid("tailLines", tail, "must be 0 or more"))
    if limit is not None and limit < 1:
        raise status.invalid_options(_OPTIONS, fields.invalid("limitBytes", limit, "must be more than 0"))
    if seconds is not None and seconds < 1:
        raise status.invalid_options(_OPTIONS, fields.invalid("sinceSeconds", seconds, "must be more than 0"))
    moment = call.query.get("sinceTime")
    if moment and seconds is not None:
        why = "give at most one of sinceTime and sinceSeconds"
        raise status.invalid_options(_OPTIONS, fields.forbidden("sinceSeconds", why))
    since = None
    if seconds is not None:
        since = datetime.fromisoformat(now()).timestamp() - seconds
    elif moment:
        try:
            read = datetime.fromisoformat(moment)
            if read.tzinfo is None:
                raise ValueError("it does not say in which zone")
            since = read.timestamp()
        except ValueError:
            raise BadRequest(f'the option sinceTime takes a time such as {now()}, not "{moment}"') from None
    return PodLogOptions(
        follow=call.flag("follow"),
        previous=call.flag("previous"),
        timestamps=call.flag("timestamps"),
        tail_lines=tail,
        since=since,
        limit_bytes=limit,
    )


def container_of(pod: Object, wanted: str) -> str:
    """The container that is meant: the one named, or the only one."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    first: list[str] = [entry["name"] for entry in spec.get("containers") or ()]
    others = [entry["name"] for group in ("initContainers", "ephemeralContainers") for entry in spec.get(group) or ()]
    if wanted:
        if wanted not in (*first, *others):
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(first) == 1:
        return first[0]
    choice = " ".join(first)
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{choice}]")
