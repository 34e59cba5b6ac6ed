"""The volumes of a pod: what each of them is filled from."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.api.translate import inline
from localpv.engine.apiserver.kinds import persistentvolumeclaim, pod_names, pod_projections, volume_sources
from localpv.engine.apiserver.kinds.pod_projections import key_to_path
from localpv.engine.apiserver.kinds.volume_access import ZERO, read_amount
from localpv.engine.apiserver.kinds.volume_paths import file_mode, inside
from localpv.engine.apiserver.kinds.volume_sources import Source

Errors = Iterator[FieldError]

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_DEFAULT_MODE = 0o644
_WITH_MODE = ("configMap", "downwardAPI", "projected", "secret")


def default(volume: Object) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
        return
    volume_sources.default(volume)
    for name in _WITH_MODE:
        if (source := volume.get(name)) is not None:
            source.setdefault("defaultMode", _DEFAULT_MODE)
    pod_projections.default(volume)
    if (ephemeral := volume.get("ephemeral")) is not None and "volumeClaimTemplate" in ephemeral:
        template = ephemeral["volumeClaimTemplate"]
        template.setdefault("metadata", {})
        persistentvolumeclaim.default_spec(template.setdefault("spec", {}))
    if (image := volume.get("image")) is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pod_names.pull_policy(image.get("reference", ""))


def raw_errors(volumes: object, path: str) -> FieldErrors:
    """A volume that names `local` itself, found before the schema drops it as unknown.

    Without this the volume would have no source left and become an empty directory: the pod would
    run and write its data where nobody keeps it.
    """
    if not isinstance(volumes, list):
        return []
    why = "a local volume can only be used through a PersistentVolume: name a claim in persistentVolumeClaim.claimName"
    return [
        fields.forbidden(f"{path}[{index}].local", why)
        for index, volume in enumerate(volumes)
        if isinstance(volume, dict) and volume.get("local") is not None
    ]


def errors(volumes: list[Object], path: str, *, pod_name: str, usable: dict[str, Object]) -> Errors:
    """What is wrong with the volumes; those that are right are put into `usable` by name.

    `pod_name` is empty in templates and where the name is still to be made.
    """
    made = {f"{pod_name}-{volume.get('name')}" for volume in volumes if "ephemeral" in volume} if pod_name else set()
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        wrong = list(_one(volume, at, pod_name))
        name = volume.get("name", "")
        if name in usable:
            wrong.append(fields.duplicate(f"{at}.name", name))
        if wrong:
            yield from wrong
        else:
            usable[name] = volume
        claim = volume.get("persistentVolumeClaim")
        if claim and claim.get("claimName") in made:
            why = "this claim will be made for an ephemeral volume of the same pod"
            yield fields.invalid(f"{at}.persistentVolumeClaim.claimName", claim["claimName"], why)


def _one(volume: Object, path: str, pod_name: str) -> Errors:
    yield from volume_sources.exactly_one(volume, path, OF_PODS)
    name = volume.get("name", "")
    if not name:
        yield fields.required(f"{path}.name")
    else:
        for sentence in names.dns_label(name):
            yield fields.invalid(f"{path}.name", name, sentence)
    if pod_name and name and "ephemeral" in volume:
        for sentence in names.dns_subdomain(f"{pod_name}-{name}"):
            yield fields.invalid(f"{path}.name", name, f"the claim made for it, {pod_name}-{name}, {sentence}")
    iscsi = volume.get("iscsi")
    if iscsi and "initiatorName" in iscsi and len(f"{name}:{iscsi.get('targetPortal', '')}") > 64:
        why = "name of the volume, ':' and portal together may have 64 characters where initiatorName is set"
        yield fields.invalid(f"{path}.name", name, why)


def _empty_dir(value: Object, path: str) -> Errors:
    limit = value.get("sizeLimit")
    if limit is not None and read_amount(limit) < ZERO:
        yield fields.forbidden(f"{path}.sizeLimit", "must not be negative")


def _git_repo(value: Object, path: str) -> Errors:
    yield from inside(value.get("directory", ""), f"{path}.directory")


def _keys(value: Object, path: str) -> Errors:
    yield from file_mode(value.get("defaultMode"), f"{path}.defaultMode")
    for index, item in enumerate(value.get("items") or ()):
        yield from key_to_path(item, f"{path}.items[{index}]")


def _downward(value: Object, path: str) -> Errors:
    yield from file_mode(value.get("defaultMode"), f"{path}.defaultMode")
    for item in value.get("items") or ():
        yield from pod_projections.downward_file(item, path)


def _csi(value: Object, path: str) -> Errors:
    yield from volume_sources.csi_driver_name(value.get("driver", ""), f"{path}.driver")
    if (secret := value.get("nodePublishSecretRef")) is not None:
        name = secret.get("name", "")
        if not name:
            yield fields.required(f"{path}.nodePublishSecretRef.name")
        else:
            for sentence in names.dns_subdomain(name):
                yield fields.invalid(f"{path}.name", name, sentence)


def _ephemeral(value: Object, path: str) -> Errors:
    template = value.get("volumeClaimTemplate")
    at = f"{path}.volumeClaimTemplate"
    if template is None:
        yield fields.required(at)
        return
    metadata = template.get("metadata") or {}
    yield from names.validate_annotations(metadata.get("annotations") or {}, f"{at}.metadata.annotations")
    yield from names.validate_labels(metadata.get("labels") or {}, f"{at}.metadata.labels")
    for name, content in metadata.items():
        if content and name not in ("annotations", "labels"):
            yield fields.forbidden(f"{at}.metadata.{name}", "only labels and annotations may be set here")
    yield from persistentvolumeclaim.validate_spec(template.get("spec") or {}, f"{at}.spec")


def _inline(value: Object, path: str) -> Errors:
    """Only what could not be translated is still here, so something is wrong with it."""
    wrong = inline.errors(value, path)
    if not wrong and value.get("nodename"):
        wrong = [fields.invalid(f"{path}.nodename", value["nodename"], "spec.nodeSelector names another node")]
    yield from wrong


def _image(value: Object, path: str) -> Errors:
    if not value.get("reference"):
        yield fields.required(f"{path}.reference")
    if value.get("pullPolicy") not in PULL_POLICIES:
        yield fields.not_supported(f"{path}.pullPolicy", value.get("pullPolicy"), PULL_POLICIES)


_SOURCES: dict[str, Source] = {
    "emptyDir": Source(checks=(_empty_dir,)),
    "gitRepo": Source(required=("repository",), checks=(_git_repo,)),
    "secret": Source(required=("secretName",), checks=(_keys,)),
    "configMap": Source(required=("name",), checks=(_keys,)),
    "downwardAPI": Source(checks=(_downward,)),
    "projected": Source(checks=(pod_projections.errors,)),
    "persistentVolumeClaim": Source(required=("claimName",)),
    **volume_sources.EVERYWHERE,
    "csi": Source(checks=(_csi,)),
    "ephemeral": Source(checks=(_ephemeral,)),
    "image": Source(checks=(_image,)),
    inline.FIELD: Source(checks=(_inline,)),
}
_ORDER = (
    "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker "
    "persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile vsphereVolume "
    "photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image localVolume"
)
OF_PODS: dict[str, Source] = {name: _SOURCES[name] for name in _ORDER.split()}
"""Sources of a pod's volumes: `local` is not among them; `localVolume` is ours, and becomes `ephemeral`."""
