"""What a CSI driver is told with a volume, and what its CSIDriver object lets be asked of it."""

from __future__ import annotations

import hashlib

import msgspec

from localpv.api.kinds.csi import CSIDriver
from localpv.api.kinds.pods import Pod, Volume
from localpv.api.kinds.volumes import CSIVolumeSource, SecretReference
from localpv.engine.kubelet.volumes.claims import Lookup
from localpv.engine.kubelet.volumes.csi_driver import MOUNT_GROUP, STAGES, Driver, Request, source_of
from localpv.engine.kubelet.volumes.volume_spec import READ_WRITE_ONCE, READ_WRITE_ONCE_POD, NotReady, Spec

PERSISTENT, EPHEMERAL = "Persistent", "Ephemeral"
TOKEN_SECONDS = 3600
"""How long a token holds for a driver that does not say."""

_INFO = "csi.storage.k8s.io/"


async def build(
    spec: Spec, pod: Pod, driver: Driver, *, lifecycle: str, lookup: Lookup, group: int | None = None
) -> Request:
    """NotReady when the driver does not serve such volumes, or not without parts that are not here."""
    source, known = source_of(spec), await lookup.csi_driver(driver.name)
    if known is None and lifecycle == EPHEMERAL:
        raise _unserved(spec, f"the CSI driver {driver.name} has no CSIDriver object that allows inline volumes")
    if lifecycle not in (known.spec.volume_lifecycle_modes if known is not None else (PERSISTENT,)):
        raise _unserved(spec, f"the CSI driver {driver.name} does not serve volumes of lifecycle {lifecycle}")
    if lifecycle == PERSISTENT and (known is None or known.spec.attach_required):
        raise NotReady(
            "AttachNotSupported",
            f"volume {spec.name}: the CSI driver {driver.name} wants volumes to be attached first, which the embedded"
            " engine does not do",
            hint="set attachRequired to false in its CSIDriver if the driver works on one node alone",
            event=spec.event,
        )
    publish_secrets = await secret(spec, source.node_publish_secret_ref, lookup)
    pod_context: dict[str, str] = {}
    if known is not None:
        if known.spec.pod_info_on_mount:
            pod_context |= _pod_info(pod, lifecycle)
        if known.spec.token_requests:
            tokens = await _tokens(pod, known, lookup)
            (publish_secrets if known.spec.service_account_token_in_secrets else pod_context).update(tokens)
    return Request(
        handle=source.volume_handle,
        capability=driver.capability(spec, group=group),
        context=source.volume_attributes,
        pod_context=pod_context,
        stage_secrets=await secret(spec, source.node_stage_secret_ref, lookup),
        publish_secrets=publish_secrets,
        read_only=spec.read_only,
        stages=lifecycle == PERSISTENT and driver.can(STAGES),
        gives_group=not driver.can(MOUNT_GROUP) and _gives_group(spec, known),
    )


def inline_spec(pod: Pod, volume: Volume) -> Spec:
    """A volume that a driver makes for one pod; its handle is the same for the same pod and volume."""
    source = volume.csi
    assert source is not None
    secret = source.node_publish_secret_ref
    handle = hashlib.sha256(f"{pod.metadata.uid}{volume.name}".encode()).hexdigest()
    return Spec(
        name=volume.name,
        csi=CSIVolumeSource(
            driver=source.driver,
            volume_handle=f"csi-{handle}",
            volume_attributes=source.volume_attributes,
            node_publish_secret_ref=None
            if secret is None
            else SecretReference(name=secret.name, namespace=pod.metadata.namespace),
        ),
        fs_type=source.fs_type,
        access_modes=(READ_WRITE_ONCE,),
        read_only=source.read_only,
        uid=pod.metadata.uid,
    )


def _gives_group(spec: Spec, known: CSIDriver | None) -> bool:
    policy = known.spec.fs_group_policy if known is not None else "ReadWriteOnceWithFSType"
    if spec.read_only or policy == "None":
        return False
    if policy == "File":
        return True
    return bool(spec.fs_type) and bool({READ_WRITE_ONCE, READ_WRITE_ONCE_POD} & set(spec.access_modes))


def _pod_info(pod: Pod, lifecycle: str) -> dict[str, str]:
    meta = pod.metadata
    return {
        f"{_INFO}pod.name": meta.name,
        f"{_INFO}pod.namespace": meta.namespace,
        f"{_INFO}pod.uid": meta.uid,
        f"{_INFO}serviceAccount.name": pod.spec.service_account_name or "default",
        f"{_INFO}ephemeral": "true" if lifecycle == EPHEMERAL else "false",
    }


async def _tokens(pod: Pod, known: CSIDriver, lookup: Lookup) -> dict[str, str]:
    found = {}
    for wanted in known.spec.token_requests:
        seconds = wanted.expiration_seconds or TOKEN_SECONDS
        token, until = await lookup.token(pod, audience=wanted.audience, seconds=seconds)
        found[wanted.audience] = {"token": token, "expirationTimestamp": until}
    return {f"{_INFO}serviceAccount.tokens": msgspec.json.encode(found).decode()}


async def secret(spec: Spec, reference: SecretReference | None, lookup: Lookup) -> dict[str, str]:
    """What is in a secret that the volume names for its driver; NotReady when it is not there."""
    if reference is None:
        return {}
    found = await lookup.secret(reference.namespace, reference.name)
    if found is None:
        name = f"{reference.namespace}/{reference.name}"
        raise NotReady("SecretMissing", f"secret {name} of volume {spec.name} does not exist", event=spec.event)
    return {key: value.decode(errors="replace") for key, value in found.items()}


def _unserved(spec: Spec, message: str) -> NotReady:
    return NotReady("NotSupported", f"volume {spec.name}: {message}", event=spec.event)
