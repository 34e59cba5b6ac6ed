"""Parameters in the query and the path of a request, with our own words for what they do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    description: str
    place: str = "query"

    @property
    def required(self) -> bool:
        return self.place == "path"


def _table(*parameters: Parameter) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}


KNOWN = _table(
    Parameter("name", "string", "Name of the object.", "path"),
    Parameter("namespace", "string", "Namespace that the object belongs to.", "path"),
    Parameter("pretty", "string", "Set to true for indented output."),
    Parameter("dryRun", "string", "All: go through every check, answer as usual, and store nothing."),
    Parameter("fieldManager", "string", "Name under which the changed fields are recorded in metadata.managedFields."),
    Parameter(
        "fieldValidation",
        "string",
        "What to do about unknown and repeated fields: Strict refuses the request, Warn (the default) answers with a"
        " warning, Ignore says nothing.",
    ),
    Parameter("force", "boolean", "Server-side apply only: take over fields that another manager owns."),
    Parameter("labelSelector", "string", "Only objects whose labels match."),
    Parameter("fieldSelector", "string", "Only objects whose selectable fields match."),
    Parameter("limit", "integer", "At most this many objects in one answer; the rest follows with continue."),
    Parameter("continue", "string", "The token from the previous page of a limited list."),
    Parameter("resourceVersion", "string", "How new the answer must be, or where a watch begins."),
    Parameter("resourceVersionMatch", "string", "Exact or NotOlderThan: how resourceVersion is meant in a list."),
    Parameter("sendInitialEvents", "boolean", "Begin a watch with the objects that exist, then a bookmark."),
    Parameter("allowWatchBookmarks", "boolean", "Allow events that only tell how far a watch has come."),
    Parameter("timeoutSeconds", "integer", "End the request after this time."),
    Parameter("watch", "boolean", "Stream changes instead of answering with a list."),
    Parameter("gracePeriodSeconds", "integer", "Time an object gets to end by itself; 0 deletes it at once."),
    Parameter("orphanDependents", "boolean", "The older form of propagationPolicy: true means Orphan."),
    Parameter(
        "propagationPolicy",
        "string",
        "What happens to objects that this one owns: Background, Foreground or Orphan.",
    ),
)

WRITE = ("dryRun", "fieldManager", "fieldValidation")
PATCH = (*WRITE, "force")
DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
DELETE_COLLECTION = tuple(sorted({*LIST, *DELETE} - {"allowWatchBookmarks", "watch"}))
