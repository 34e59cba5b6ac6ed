"""What `localpv bootstrap` makes from a ConfigMap that names only host directories.

The rules and the defaults are those of the bootstrapper of the classic provisioner. In place of the role system:node,
which it bound, the provisioner gets a small role of its own: it needs to read Nodes, not the Secrets of all namespaces.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localpv.api import roles, well_known, yamls
from localpv.api.objects import Object
from localpv.config import reading as config_reading
from localpv.config.values import Problem
from localpv.deploy import access, reading, storage, workloads
from localpv.deploy.plan import IMAGE, ClassObject, Plan

VOLUME_CONFIG = "local-volume-default-config"
SERVICE_ACCOUNT = "local-storage-admin"
DAEMON_SET = "local-volume-provisioner"
PV_ROLE = "system:persistent-volume-provisioner"
"""Role that every cluster has, for programs that make volumes."""

MOUNT_ROOT = "/mnt/local-storage"
MANAGED_BY = "localpv-bootstrap"
CLASSES = reading.CLASSES


def mount_dir(host_dir: str) -> str:
    """Where the container sees a directory of the host: /mnt/ssds -> /mnt/local-storage/mnt~ssds."""
    path = "/" + posixpath.normpath(host_dir).lstrip("/")
    return f"{MOUNT_ROOT}/{path[1:].replace('/', '~')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the administrator asked for."""

    namespace: str
    image: str = IMAGE
    volume_config: str = VOLUME_CONFIG
    service_account: str = SERVICE_ACCOUNT


def completed(data: Mapping[str, str]) -> dict[str, str]:
    """The data of the ConfigMap with each mountDir that was missing; what does not make sense stays as it is."""
    text = data.get(CLASSES)
    if text is None:
        return dict(data)
    return {**data, CLASSES: fill_in(text)}


def fill_in(text: str) -> str:
    """storageClassMap with a mountDir for each class that has only a hostDir; comments and order stay."""
    import yaml

    try:
        root: Any = yamls.compose(text)
        wanted = yamls.load(text)
    except yaml.YAMLError:
        return text
    added: list[tuple[int, str]] = []
    for key, entry in root.value if isinstance(root, yaml.MappingNode) else []:
        settings = wanted.get(key.value) if isinstance(key, yaml.ScalarNode) else None
        if not isinstance(settings, dict) or settings.get("mountDir") is not None:
            continue
        host_dir = settings.get("hostDir")
        if not isinstance(host_dir, str) or not host_dir:
            continue
        settings["mountDir"] = mount_dir(host_dir)
        where = next((pair for pair in entry.value if pair[0].value == "hostDir"), None)
        if where is not None:
            added.append(_insertion(text, where, settings["mountDir"], in_line=bool(entry.flow_style)))
    if not added:
        return text
    made = text
    for position, line in sorted(added, reverse=True):
        made = made[:position] + line + made[position:]
    # Anchors and other rarities: then the meaning counts more than the form.
    return made if _means(made, wanted) else yaml.safe_dump(wanted, sort_keys=False, width=120)


def _insertion(text: str, pair: tuple[Any, Any], path: str, *, in_line: bool) -> tuple[int, str]:
    """Where the new key goes, and as what: behind hostDir, on a line of its own where there are lines."""
    key, value = pair
    quoted = f'"{path}"'
    if in_line:
        return value.end_mark.index, f", mountDir: {quoted}"
    end = text.find("\n", value.end_mark.index)
    return len(text) if end < 0 else end, f"\n{' ' * key.start_mark.column}mountDir: {quoted}"


def _means(text: str, wanted: Any) -> bool:
    import yaml

    try:
        return bool(yamls.load(text) == wanted)
    except yaml.YAMLError:
        return False


def plan(wish: Wish, data: Mapping[str, str]) -> Plan:
    """What the completed ConfigMap means; ConfigurationError names what is wrong in it."""
    loaded = config_reading.read(data)
    problems = list(loaded.problems)
    if loaded.config is not None and not loaded.config.classes:
        problems.append(Problem(CLASSES, "names no class: there would be nothing to offer"))
    reading.refuse(problems, f"ConfigMap {wish.namespace}/{wish.volume_config}")
    assert loaded.config is not None
    return Plan(config=loaded.config, texts=dict(data), image=wish.image, namespace=wish.namespace, drop_in=True)


def rights(wish: Wish, made: Plan) -> list[Object]:
    """The service account, and what it may do."""
    namespace, account = wish.namespace, wish.service_account
    subject = roles.service_account_subject(namespace, account)
    # Roles of the cluster are named after the namespace, so that a second bootstrap elsewhere takes nothing away.
    name = f"{DAEMON_SET}:{namespace}:{account}"
    nodes = [rule for rule in roles.provisioner(removes_taint=made.config.remove_node_not_ready_taint) if _nodes(rule)]
    return [
        _marked(each)
        for each in (
            access.service_account(namespace, account),
            roles.binding(f"{name}:volumes", PV_ROLE, subject),
            roles.role(f"{name}:nodes", *nodes, roles.holding()),
            roles.binding(f"{name}:nodes", f"{name}:nodes", subject),
            *access.granted_in(namespace, account, *roles.provisioner_in_own_namespace(wish.volume_config)),
        )
    ]


def storage_classes(made: Plan) -> list[Object]:
    """The StorageClasses that claims name: without them the provisioner publishes nothing."""
    return [_marked(storage.storage_class(ClassObject(name=name))) for name in made.config.classes]


def daemon_set(wish: Wish, made: Plan) -> Object:
    """The provisioner on each node."""
    return _marked(
        workloads.daemon_set(
            made,
            program="provisioner",
            name=DAEMON_SET,
            account=wish.service_account,
            config_map=wish.volume_config,
        )
    )


def ours(obj: Object) -> bool:
    """Whether an object was made by a bootstrap, and may be brought up to date by another."""
    return bool((obj["metadata"].get("labels") or {}).get(well_known.MANAGED_BY) == MANAGED_BY)


def _nodes(rule: Object) -> bool:
    return "nodes" in rule["resources"]


def _marked(obj: Object) -> Object:
    metadata = obj["metadata"]
    labels = {**metadata.get("labels", {}), well_known.MANAGED_BY: MANAGED_BY}
    return {**obj, "metadata": {**metadata, "labels": labels}}
