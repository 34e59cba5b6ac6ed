"""Things in a pod that are allowed and probably not meant."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import names
from localpv.api.node_selector import PREFERRED, REQUIRED
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import persistentvolumeclaim, pod_resources
from localpv.engine.apiserver.kinds.checks import read_amount
from localpv.engine.apiserver.kinds.node import label_warning, selector_warnings, term_warnings

_LISTS = ("initContainers", "containers", "ephemeralContainers")
_GONE_SOURCES = {
    "cephfs": "deprecated, and Kubernetes does not mount it since 1.31",
    "flocker": "deprecated, and Kubernetes does not mount it since 1.25",
    "gitRepo": "deprecated, and turned off by default since 1.33",
    "glusterfs": "deprecated, and Kubernetes does not mount it since 1.26",
    "photonPersistentDisk": "deprecated, and Kubernetes does not mount it since 1.16",
    "quobyte": "deprecated, and Kubernetes does not mount it since 1.25",
    "rbd": "deprecated, and Kubernetes does not mount it since 1.31",
    "scaleIO": "deprecated, and Kubernetes does not mount it since 1.22",
    "storageos": "deprecated, and Kubernetes does not mount it since 1.25",
}
_BYTES = ("memory", "ephemeral-storage")


def of_pod(pod: Object) -> Iterator[str]:
    name = pod["metadata"].get("name", "")
    if name and names.dns_label(name):
        yield "metadata.name: becomes the pod's host name, for which a DNS label is better"
    yield from of_spec(pod["spec"], "spec")


def of_spec(spec: Object, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        yield from label_warning(key, f"{path}.nodeSelector[{key}]")
    yield from _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at = f"{path}.topologySpreadConstraints[{index}]"
        yield from label_warning(constraint.get("topologyKey", ""), f"{at}.topologyKey")
        if "labelSelector" not in constraint:
            yield f"{at}.labelSelector: without one no pod is counted"
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source, why in _GONE_SOURCES.items():
            if source in volume:
                yield f"{path}.volumes[{index}].{source}: {why}"
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            at = f"{path}.volumes[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from persistentvolumeclaim.spec_warnings(template["spec"], at)
    yield from _repeated(spec.get("hostAliases") or [], "ip", f"{path}.hostAliases")
    yield from _repeated(spec.get("imagePullSecrets") or [], "name", f"{path}.imagePullSecrets")
    for list_name in _LISTS:
        for index, container in enumerate(spec.get(list_name) or ()):
            yield from _container(container, f"{path}.{list_name}[{index}]")
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        yield f"{path}.terminationGracePeriodSeconds: negative, which is taken as 1"


def _affinity(affinity: Object, path: str) -> Iterator[str]:
    node = affinity.get("nodeAffinity") or {}
    yield from selector_warnings(node.get(REQUIRED), f"{path}.nodeAffinity.{REQUIRED}")
    for index, term in enumerate(node.get(PREFERRED) or ()):
        at = f"{path}.nodeAffinity.{PREFERRED}[{index}].preference"
        yield from term_warnings(term.get("preference") or {}, at)
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        for index, term in enumerate(pods.get(REQUIRED) or ()):
            if "labelSelector" not in term:
                yield f"{path}.{name}.{REQUIRED}[{index}].labelSelector: without one no pod matches"
        for index, term in enumerate(pods.get(PREFERRED) or ()):
            if "labelSelector" not in (term.get("podAffinityTerm") or {}):
                yield f"{path}.{name}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: without one no pod matches"


def _repeated(items: list[Object], key: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(key, "")
        if value in seen:
            yield f"{path}[{index}].{key}: {value} is there twice"
        if not value and key == "name":
            yield f"{path}[{index}].{key}: empty"
        seen.add(value)


def _container(container: Object, path: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        for name in _BYTES:
            amount = (resources.get(kind) or {}).get(name)
            if amount is not None and not pod_resources.is_whole(read_amount(amount)):
                yield f"{path}.resources.{kind}[{name}]: {amount} is not a whole number of bytes"
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen and f"$({name})" not in variable.get("value", ""):
            yield f"{path}.env[{index}]: hides the {name} before it"
        seen.add(name)
