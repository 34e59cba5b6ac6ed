"""The environment and the command line of a container."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from localpv import errors
from localpv.api.kinds.containers import Container, EnvFromSource, EnvVarSource, KeySelector, ResourceFieldSelector
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import downward_api
from localpv.engine.kubelet.events import BadConfig
from localpv.engine.kubelet.images.store import Config

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


class Sources(Protocol):
    """Where values come from; None when there is no such object."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace $(NAME) by a value that is known; $$ is a dollar, and what is not known stays as it is."""

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return values.get(found[1], found[0])

    return _REFERENCE.sub(one, text)


def command(container: Container, config: Config, values: Mapping[str, str]) -> list[str]:
    """What to run: a command of the container replaces all that the image says, its args only the image's."""
    words = [expand(word, values) for word in container.command] or list(config.entrypoint or ())
    if container.args:
        return words + [expand(word, values) for word in container.args]
    # The image's own words are taken as they are.
    return words if container.command else words + list(config.cmd or ())


class Environment:
    """Works out the variables of containers."""

    def __init__(self, sources: Sources, *, machine: dict[str, str], host_ip: str) -> None:
        self._sources = sources
        self._machine = machine
        self._host_ip = host_ip

    async def of(self, pod: Pod, container: Container) -> dict[str, str]:
        """What the container asks for, later words winning; without the image's own."""
        values: dict[str, str] = {}
        for source in container.env_from:
            values |= await self._whole(pod.metadata.namespace, source)
        for variable in container.env:
            if variable.value_from is None:
                values[variable.name] = expand(variable.value, values)
                continue
            found = await self._value(pod, container, variable.value_from)
            if found is not None:
                values[variable.name] = found
        return values

    async def _whole(self, namespace: str, source: EnvFromSource) -> dict[str, str]:
        if source.config_map_ref is not None:
            reference, kind = source.config_map_ref, "configmap"
            data = await self._sources.config_map(namespace, reference.name)
        elif source.secret_ref is not None:
            reference, kind = source.secret_ref, "secret"
            data = await self._sources.secret(namespace, reference.name)
        else:
            return {}
        if data is None:
            if reference.optional:
                return {}
            raise BadConfig(f'{kind} "{reference.name}" not found')
        return {f"{source.prefix}{key}": _text(value) for key, value in sorted(data.items())}

    async def _value(self, pod: Pod, container: Container, source: EnvVarSource) -> str | None:
        if source.field_ref is not None:
            return _field(pod, source.field_ref.field_path, host_ip=self._host_ip)
        if source.resource_field_ref is not None:
            return _resource(pod, container, source.resource_field_ref, machine=self._machine)
        namespace = pod.metadata.namespace
        if (key := source.config_map_key_ref) is not None:
            return _keyed(key, "ConfigMap", namespace, await self._sources.config_map(namespace, key.name))
        if (key := source.secret_key_ref) is not None:
            return _keyed(key, "Secret", namespace, await self._sources.secret(namespace, key.name))
        return None


def _keyed(key: KeySelector, kind: str, namespace: str, data: Mapping[str, bytes] | None) -> str | None:
    if data is not None and key.key in data:
        return _text(data[key.key])
    if key.optional:
        return None
    if data is None:
        raise BadConfig(f'{kind.lower()} "{key.name}" not found')
    raise BadConfig(f"couldn't find key {key.key} in {kind} {namespace}/{key.name}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def merged(config: Config, values: Mapping[str, str], host_name: str) -> Sequence[str]:
    """NAME=VALUE for the runtime: the image's, then ours, then the container's."""
    whole = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    whole |= dict(word.split("=", 1) for word in config.env or () if "=" in word)
    whole |= {"HOSTNAME": host_name, **values}
    return [f"{name}={value}" for name, value in whole.items()]


def _field(pod: Pod, path: str, *, host_ip: str = "") -> str:
    """The value of a fieldRef."""
    pod_ip = host_ip if pod.spec.host_network else ""
    here = {
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
    }
    if path in here:
        return here[path]
    if path in ("metadata.labels", "metadata.annotations"):  # a file can hold many lines, a variable is one value
        raise BadConfig(f"unsupported fieldPath: {path}")
    try:
        return downward_api.field(pod, path)
    except errors.BadRequest as error:
        raise BadConfig(error.message) from error


def _resource(pod: Pod, container: Container, selector: ResourceFieldSelector, *, machine: dict[str, str]) -> str:
    """The value of a resourceFieldRef; a limit that is not set is what the machine has."""
    try:
        return downward_api.resource(pod, selector, allocatable=machine, container=container.name)
    except errors.BadRequest as error:
        raise BadConfig(error.message) from error
