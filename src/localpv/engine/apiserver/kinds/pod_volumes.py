"""The volumes of a pod: what each of them is filled from.

Among them files that come from the API: keys of secrets, fields of the pod, tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.api.translate import inline
from localpv.engine.apiserver.kinds import checks, persistentvolumeclaim, pod_env, rules, volume_sources
from localpv.engine.apiserver.kinds.checks import ZERO, file_mode, inside, inside_and_not_reserved, read_amount
from localpv.engine.apiserver.kinds.rules import Field
from localpv.engine.apiserver.kinds.volume_sources import Source

Errors = Iterator[FieldError]

TOKEN_SECONDS = 3600
MIN_TOKEN_SECONDS = 600
MAX_TOKEN_SECONDS = 2**32

_TOKEN_RANGE = "must be from 10 minutes to 2^32 seconds"
_TOKEN = (Field("expirationSeconds", least=MIN_TOKEN_SECONDS, most=MAX_TOKEN_SECONDS, said=_TOKEN_RANGE),)
_CERTIFICATE = (
    Field("signerName", required=True),
    Field("keyType", enum=("ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"), unset=""),
    Field("maxExpirationSeconds", least=3600, said="must be 3600 or more"),
)


def _default_projections(volume: Object) -> None:
    """Fill in downward API and projected volumes."""
    if (downward := volume.get("downwardAPI")) is not None:
        _default_files(downward)
    if (projected := volume.get("projected")) is not None:
        for source in projected.get("sources") or ():
            if (downward := source.get("downwardAPI")) is not None:
                _default_files(downward)
            if (token := source.get("serviceAccountToken")) is not None:
                token.setdefault("expirationSeconds", TOKEN_SECONDS)


def _default_files(downward: Object) -> None:
    for file in downward.get("items") or ():
        if (field := file.get("fieldRef")) is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"
        if (resource := file.get("resourceFieldRef")) is not None:
            resource.setdefault("divisor", "0")


def key_to_path(item: Object, path: str) -> Errors:
    for name in ("key", "path"):
        if not item.get(name):
            yield fields.required(f"{path}.{name}")
    yield from inside_and_not_reserved(item.get("path", ""), f"{path}.path")
    yield from file_mode(item.get("mode"), f"{path}.mode")


def downward_file(file: Object, path: str) -> Errors:
    """Kubernetes names the list and not the file in these paths."""
    if not file.get("path"):
        yield fields.required(f"{path}.path")
    yield from inside_and_not_reserved(file.get("path", ""), f"{path}.path")
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        yield from pod_env.field_ref(field, f"{path}.fieldRef", pod_env.IN_FILES)
        if resource is not None:
            yield fields.invalid(path, "resource", "fieldRef and resourceFieldRef exclude each other")
    elif resource is not None:
        yield from pod_env.resource_ref(resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        yield fields.required(path, "fieldRef or resourceFieldRef is needed")
    yield from file_mode(file.get("mode"), f"{path}.mode")


def _projected(projected: Object, path: str) -> Errors:
    """A projected volume puts several sources into one directory, so their files must not collide."""
    yield from file_mode(projected.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        for name in ("secret", "configMap"):
            if (keys := source.get(name)) is not None:
                yield from _projected_keys(keys, f"{at}.{name}", path, taken)
        if (downward := source.get("downwardAPI")) is not None:
            for file in downward.get("items") or ():
                yield from downward_file(file, f"{at}.downwardAPI")
                yield from _take(file.get("path", ""), path, taken)
        if (token := source.get("serviceAccountToken")) is not None:
            yield from _token(token, f"{at}.serviceAccountToken", path)
        if (bundle := source.get("clusterTrustBundle")) is not None:
            yield from _trust_bundle(bundle, f"{at}.clusterTrustBundle")
            yield from _take(bundle.get("path", ""), path, taken)
        if (certificate := source.get("podCertificate")) is not None:
            yield from _certificate(certificate, f"{at}.podCertificate", path, taken)
        if len(source) > 1:
            yield fields.forbidden(at, "one entry projects one source")


def _take(file: str, path: str, taken: set[str]) -> Errors:
    if file and file in taken:
        yield fields.invalid(path, file, "two sources would write this file")
    taken.add(file)


def _projected_keys(source: Object, path: str, whole: str, taken: set[str]) -> Errors:
    if not source.get("name"):
        yield fields.required(f"{path}.name")
    for index, item in enumerate(source.get("items") or ()):
        yield from key_to_path(item, f"{path}.items[{index}]")
        yield from _take(item.get("path", ""), whole, taken)


def _token(token: Object, path: str, whole: str) -> Errors:
    yield from rules.errors(_TOKEN, token, path)
    if not token.get("path"):
        yield fields.required(f"{whole}.path")
    else:
        yield from inside_and_not_reserved(token["path"], f"{whole}.path")


def _trust_bundle(bundle: Object, path: str) -> Errors:
    name, signer = bundle.get("name"), bundle.get("signerName")
    if name is not None and signer is not None:
        yield fields.invalid(path, bundle, "name and signerName exclude each other")
    elif name is not None:
        yield from fields.malformed(f"{path}.name", name, names.dns_subdomain(name.rpartition(":")[2]))
        if "labelSelector" in bundle:
            yield fields.invalid(
                f"{path}.labelSelector", bundle["labelSelector"], "goes with signerName, not with name"
            )
    elif signer is not None:
        if not signer:
            yield fields.required(f"{path}.signerName")
        if "labelSelector" in bundle:
            yield from selectors.validate(bundle["labelSelector"], f"{path}.labelSelector")
    else:
        yield fields.required(path, "name or signerName is needed")
    if not bundle.get("path"):
        yield fields.required(f"{path}.path")
    yield from inside_and_not_reserved(bundle.get("path", ""), f"{path}.path")


def _certificate(certificate: Object, path: str, whole: str, taken: set[str]) -> Errors:
    yield from rules.errors(_CERTIFICATE, certificate, path)
    files = [name for name in ("credentialBundlePath", "keyPath", "certificateChainPath") if certificate.get(name)]
    for name in files:
        yield from inside_and_not_reserved(certificate[name], f"{path}.{name}")
        yield from _take(certificate[name], whole, taken)
    if not files:
        yield fields.required(path, "name at least one file to write")


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
    _default_projections(volume)
    if (ephemeral := volume.get("ephemeral")) is not None and "volumeClaimTemplate" in ephemeral:
        template = ephemeral["volumeClaimTemplate"]
        template.setdefault("metadata", {})
        persistentvolumeclaim.default_spec(template.setdefault("spec", {}))
    if (image := volume.get("image")) is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = checks.pull_policy(image.get("reference", ""))


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
        yield from fields.malformed(f"{path}.name", name, names.dns_label(name))
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
        yield from downward_file(item, path)


def _csi(value: Object, path: str) -> Errors:
    yield from volume_sources.csi_driver_name(value.get("driver", ""), f"{path}.driver")
    if (secret := value.get("nodePublishSecretRef")) is not None:
        name = secret.get("name", "")
        if not name:
            yield fields.required(f"{path}.nodePublishSecretRef.name")
        else:
            yield from fields.malformed(f"{path}.name", name, names.dns_subdomain(name))


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
    "projected": Source(checks=(_projected,)),
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
