"""Events of both API groups, which read the same."""

from __future__ import annotations

from typing import Any

from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import event as spelling
from localpv.engine.apiserver.tables import durations
from localpv.engine.apiserver.tables.layout import Layout, column, wide


def _event(obj: Object, now: float) -> list[Any]:
    event = spelling.to_core(obj)
    about, series = event.get("involvedObject") or {}, event.get("series")
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or first
    count = event.get("count") or 1
    if series is not None:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    kind, name = about.get("kind", "").lower(), about.get("name")
    return [
        durations.since(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _source(event),
        event.get("message", "").strip(),
        durations.since(first, now),
        count,
        event["metadata"]["name"],
    ]


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component: str = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


_LAYOUT = Layout(
    [
        column("Last Seen", "How long ago it last happened"),
        column("Type", "Normal, or a warning"),
        column("Reason", "What happened, as a machine word"),
        column("Object", "What it happened to"),
        wide("Subobject", "The part of the object that it happened to"),
        wide("Source", "Who reports it"),
        column("Message", "What happened, as a sentence"),
        wide("First Seen", "How long ago it first happened"),
        wide("Count", "How often it happened"),
        wide("Name", "Name of the event", format="name"),
    ],
    _event,
)

LAYOUTS = {("", "Event"): _LAYOUT, ("events.k8s.io", "Event"): _LAYOUT}
