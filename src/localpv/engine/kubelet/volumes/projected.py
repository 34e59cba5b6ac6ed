"""Volumes whose files come from the API: configMap, secret, downwardAPI, projected.

Tokens of service accounts are asked for once, and again before they end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from localpv.api.kinds.meta import read_time
from localpv.api.kinds.pods import (
    ConfigMapVolumeSource,
    DownwardAPIFile,
    KeysProjection,
    Pod,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from localpv.engine.kubelet import downward_api
from localpv.engine.kubelet.paths import CONFIG_MAP, DOWNWARD, PROJECTED, SECRET
from localpv.engine.kubelet.volumes.claims import Lookup
from localpv.engine.kubelet.volumes.volume_spec import NotReady
from localpv.host.volume_files import File
from localpv.runtime.clock import Clock

DEFAULT_SECONDS = 3600
SHORTEST_SECONDS = 600

RENEW_AT = 0.8
"""Part of a token's life after which a new one is asked for."""

LONGEST_SECONDS = 24 * 3600
"""However long a token lives, it is renewed after this time."""

DEFAULT_MODE = 0o644
PRIVATE_MODE = 0o600


class Tokens:
    """Tokens of the pods of one node, kept in memory: after a restart every pod gets a new one."""

    def __init__(self, *, lookup: Lookup, clock: Clock) -> None:
        self._lookup, self._clock = lookup, clock
        self._known: dict[str, dict[tuple[str, int], tuple[str, datetime]]] = {}

    async def get(self, pod: Pod, source: ServiceAccountTokenProjection) -> str:
        """A token that is good for a while."""
        seconds = max(source.expiration_seconds or DEFAULT_SECONDS, SHORTEST_SECONDS)
        key = (source.audience, seconds)
        of_pod = self._known.setdefault(pod.metadata.uid, {})
        now = self._clock.now()
        if (known := of_pod.get(key)) and now < known[1]:
            return known[0]
        token, ends = await self._lookup.token(pod, audience=source.audience, seconds=seconds)
        # A server may give less than was asked for.
        lives = (read_time(ends) - now).total_seconds() if ends else seconds
        of_pod[key] = token, now + timedelta(seconds=min(lives * RENEW_AT, LONGEST_SECONDS))
        return token

    def forget(self, pod_uid: str) -> None:
        self._known.pop(pod_uid, None)


def plugin_of(volume: Volume) -> str:
    """The name of the plugin that a kubelet has for such a volume; empty for one of another source."""
    if volume.config_map is not None:
        return CONFIG_MAP
    if volume.secret is not None:
        return SECRET
    if volume.downward_api is not None:
        return DOWNWARD
    return PROJECTED if volume.projected is not None else ""


class Contents:
    """Reads what belongs into a pod's volumes now."""

    def __init__(self, *, lookup: Lookup, tokens: Tokens) -> None:
        self._lookup, self._tokens = lookup, tokens

    async def of(self, pod: Pod, volume: Volume) -> dict[str, File]:
        """The files of a volume by their paths; NotReady when something that they come from is not there."""
        if (config := volume.config_map) is not None:
            return await self._config_map(pod, config, _mode(config.default_mode))
        if (secret := volume.secret) is not None:
            source = KeysProjection(name=secret.secret_name, items=secret.items, optional=secret.optional)
            return await self._secret(pod, source, _mode(secret.default_mode))
        if (told := volume.downward_api) is not None:
            return await self._downward(pod, told.items, _mode(told.default_mode))
        assert volume.projected is not None
        files: dict[str, File] = {}
        for part in volume.projected.sources:
            files |= await self._projected(pod, part, _mode(volume.projected.default_mode))
        return files

    async def _projected(self, pod: Pod, part: VolumeProjection, mode: int) -> dict[str, File]:
        if part.config_map is not None:
            return await self._config_map(pod, part.config_map, mode)
        if part.secret is not None:
            return await self._secret(pod, part.secret, mode)
        if part.downward_api is not None:
            return await self._downward(pod, part.downward_api.items, mode)
        if part.service_account_token is not None:
            token = await self._tokens.get(pod, part.service_account_token)
            user, group = _one_user(pod), pod.spec.security_context and pod.spec.security_context.fs_group
            private = user is not None or group is not None
            file = File(data=token.encode(), mode=PRIVATE_MODE if private else mode, user=user)
            return {part.service_account_token.path: file}
        raise NotReady(
            "NotSupported",
            "a source of a projected volume is not supported on the embedded engine",
            hint="use configMap, secret, downwardAPI or serviceAccountToken",
        )

    async def _config_map(self, pod: Pod, source: ConfigMapVolumeSource | KeysProjection, mode: int) -> dict[str, File]:
        found = await self._lookup.config_map(pod.metadata.namespace, source.name)
        return _files(found, source, mode, what=f"configmap {pod.metadata.namespace}/{source.name}")

    async def _secret(self, pod: Pod, source: KeysProjection, mode: int) -> dict[str, File]:
        found = await self._lookup.secret(pod.metadata.namespace, source.name)
        return _files(found, source, mode, what=f"secret {pod.metadata.namespace}/{source.name}")

    async def _downward(self, pod: Pod, items: Sequence[DownwardAPIFile], mode: int) -> dict[str, File]:
        files = {}
        for item in items:
            if item.field_ref is not None:
                text = downward_api.field(pod, item.field_ref.field_path)
            elif item.resource_field_ref is not None:
                node = await self._lookup.node()
                allocatable = node.status.allocatable if node else {}
                text = downward_api.resource(pod, item.resource_field_ref, allocatable=allocatable)
            else:
                text = ""
            own = mode if item.mode is None else item.mode
            files[str(PurePosixPath(item.path))] = File(data=text.encode(), mode=own)
        return files


def _files(
    values: Mapping[str, bytes] | None,
    source: ConfigMapVolumeSource | KeysProjection,
    mode: int,
    *,
    what: str,
) -> dict[str, File]:
    if values is None:
        if not source.optional:
            raise NotReady("SourceMissing", f"{what} not found", hint="create it; the pod goes on by itself")
        values = {}
    if not source.items:
        return {key: File(data=data, mode=mode) for key, data in values.items()}
    files = {}
    for item in source.items:
        if item.key in values:
            own = mode if item.mode is None else item.mode
            files[str(PurePosixPath(item.path))] = File(data=values[item.key], mode=own)
        elif not source.optional:
            raise NotReady("KeyMissing", f"{what} has no key {item.key}", hint="add the key, or take the item out")
    return files


def _mode(given: int | None) -> int:
    return DEFAULT_MODE if given is None else given


def _one_user(pod: Pod) -> int | None:
    """The user that all containers of the pod run as, if they say so and agree."""
    whole = pod.spec.security_context.run_as_user if pod.spec.security_context else None
    users = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        own = container.security_context.run_as_user if container.security_context else None
        users.add(whole if own is None else own)
    return users.pop() if len(users) == 1 else None
