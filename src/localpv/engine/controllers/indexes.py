"""The indexes of an Indexed Job: how sets of them are written, and the pods that carry them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from localpv.api.kinds import Pod
from localpv.api.objects import Object

INDEX = "batch.kubernetes.io/job-completion-index"
VARIABLE = "JOB_COMPLETION_INDEX"


def read(text: str, completions: int) -> frozenset[int]:
    """`0,2-4` as a set; what lies beyond the completions, or cannot be read, is left out."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return frozenset(found)


def write(indexes: Iterable[int]) -> str:
    """A set as `0,2-4`; two in a row are written apart, as Kubernetes does."""
    parts: list[str] = []
    run: list[int] = []
    for index in sorted(set(indexes)):
        if run and index != run[-1] + 1:
            parts += _run(run)
            run = []
        run.append(index)
    return ",".join(parts + _run(run))


def _run(run: list[int]) -> list[str]:
    return [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(index) for index in run]


def of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None


def mark(body: Object, job_name: str, index: int) -> Object:
    """A pod of the job as the one with an index."""
    text = str(index)
    metadata = dict(body["metadata"])
    metadata["annotations"] = {**metadata["annotations"], INDEX: text}
    metadata["labels"] = {**metadata["labels"], INDEX: text}
    ending = f"-{text}-"
    metadata["generateName"] = job_name[: 58 - len(ending)] + ending
    spec = {**body["spec"], "hostname": f"{job_name}-{text}"}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_with_variable(container) for container in spec[kind]]
    return {**body, "metadata": metadata, "spec": spec}


def _with_variable(container: Mapping[str, Any]) -> Object:
    variables = list(container.get("env") or ())
    if not any(each.get("name") == VARIABLE for each in variables):
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        variables.append({"name": VARIABLE, "valueFrom": source})
    return {**container, "env": variables}
