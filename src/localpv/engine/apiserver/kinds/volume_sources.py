"""Where the data of a volume is: every kind of source that the API knows, for pods and for PersistentVolumes.

A source is described by the fields that it cannot do without and by checks of its own. The order
of the tables matters: where a volume has several sources, the first one counts and the others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localpv.api import fields, names
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.checks import no_backsteps

Errors = Iterator[FieldError]
Check = Callable[[Object, str], Errors]

HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")

_DEFAULTS: dict[str, dict[str, Any]] = {
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "scaleIO": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One kind of source."""

    required: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    reported_as: str = ""
    """Name in the paths of errors, where Kubernetes uses another one than the field has."""

    def errors(self, value: Object, path: str) -> Errors:
        for name in self.required:
            if not value.get(name):
                yield fields.required(f"{path}.{name}")
        for check in self.checks:
            yield from check(value, path)


def default(holder: Object) -> None:
    """Fill in what the sources of a volume leave out."""
    for name, values in _DEFAULTS.items():
        if (source := holder.get(name)) is not None:
            for key, value in values.items():
                if source.get(key) in (None, "") and not (key == "type" and key in source):
                    source[key] = value


def exactly_one(holder: Object, path: str, known: Mapping[str, Source]) -> Errors:
    """A volume has one source, and that one is right."""
    present = [name for name in known if name in holder]
    if not present:
        yield fields.required(path, "a volume needs a source")
        return
    first = present[0]
    source = known[first]
    yield from source.errors(holder[first], f"{path}.{source.reported_as or first}")
    for name in present[1:]:
        yield fields.forbidden(f"{path}.{name}", f"a volume has one source, and this one has {first} already")


# What the sources check of themselves.


def _host_path(value: Object, path: str) -> Errors:
    if not value.get("path"):
        yield fields.required(f"{path}.path")
        return
    yield from no_backsteps(value["path"], f"{path}.path")
    if value.get("type", "") not in HOST_PATH_TYPES:
        yield fields.not_supported(f"{path}.type", value["type"], HOST_PATH_TYPES)


def _local(value: Object, path: str) -> Errors:
    # fsType is free text: which file systems there are is for the node to know.
    yield from no_backsteps(value.get("path", ""), f"{path}.path")


def _partition(value: Object, path: str) -> Errors:
    if not 0 <= value.get("partition", 0) <= 255:
        yield fields.invalid(f"{path}.partition", value["partition"], "must be from 1 to 255")


def _nfs(value: Object, path: str) -> Errors:
    if not value.get("path", "").startswith("/"):
        yield fields.invalid(f"{path}.path", value.get("path", ""), "must be an absolute path")


def _flocker(value: Object, path: str) -> Errors:
    name, uuid = value.get("datasetName", ""), value.get("datasetUUID", "")
    if not name and not uuid:
        yield fields.required(path, "datasetName or datasetUUID is needed")
    if name and uuid:
        yield fields.invalid(path, "resource", "datasetName and datasetUUID exclude each other")
    if "/" in name:
        yield fields.invalid(f"{path}.datasetName", name, "must not contain '/'")


def _quobyte(value: Object, path: str) -> Errors:
    registry = value.get("registry", "")
    pairs = "must be host:port, or several of them with commas between"
    if not registry:
        yield fields.required(f"{path}.registry", pairs)
    elif len(value.get("tenant", "")) > 64:
        yield fields.required(f"{path}.tenant", "must be a UUID of at most 64 characters")
    elif not all(_host_and_port(pair) for pair in registry.split(",")):
        yield fields.invalid(f"{path}.registry", registry, pairs)
    if not value.get("volume"):
        yield fields.required(f"{path}.volume")


_host_and_port = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):[^:\[\]]*").fullmatch
_is_iqn = re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+").fullmatch
_is_eui = re.compile(r"eui.[A-Za-z0-9]{16}").fullmatch
_is_naa = re.compile(r"naa.[A-Za-z0-9]{32}").fullmatch


def _iscsi_name(name: str, path: str) -> Errors:
    if not (_is_iqn(name) or _is_eui(name) or _is_naa(name)):
        yield fields.invalid(path, name, "must be an iSCSI name that starts with iqn, eui or naa")


def _iscsi(value: Object, path: str) -> Errors:
    if name := value.get("iqn"):
        yield from _iscsi_name(name, f"{path}.iqn")
    if not 0 <= value.get("lun", 0) <= 255:
        yield fields.invalid(f"{path}.lun", value["lun"], "must be from 0 to 255")
    if (value.get("chapAuthDiscovery") or value.get("chapAuthSession")) and "secretRef" not in value:
        yield fields.required(f"{path}.secretRef", "CHAP needs a secret")
    if (initiator := value.get("initiatorName")) is not None:
        yield from _iscsi_name(initiator, f"{path}.initiatorname")


def _fibre_channel(value: Object, path: str) -> Errors:
    targets, wwids = value.get("targetWWNs"), value.get("wwids")
    if not targets and not wwids:
        yield fields.required(f"{path}.targetWWNs", "targetWWNs or wwids is needed")
    if targets and wwids:
        yield fields.invalid(f"{path}.targetWWNs", targets, "targetWWNs and wwids exclude each other")
    if targets and "lun" not in value:
        yield fields.required(f"{path}.lun", "targetWWNs needs a lun")
    elif targets and not 0 <= value["lun"] <= 255:
        yield fields.invalid(f"{path}.lun", value["lun"], "must be from 0 to 255")


def _flex_options(value: Object, path: str) -> Errors:
    for key in value.get("options", ()):
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            yield fields.invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io are reserved")


_MANAGED_DISK = "/subscriptions/{id}/resourceGroups/{group}/providers/Microsoft.Compute/disks/{disk}"
_BLOB_DISK = "https://{account}.blob.core.windows.net/{container}/{disk}.vhd"


def _azure_disk(value: Object, path: str) -> Errors:
    caching, kind, uri = value.get("cachingMode"), value.get("kind"), value.get("diskURI", "")
    if caching not in (None, "None", "ReadOnly", "ReadWrite"):
        yield fields.not_supported(f"{path}.cachingMode", caching, ("None", "ReadOnly", "ReadWrite"))
    if kind not in (None, "Dedicated", "Managed", "Shared"):
        yield fields.not_supported(f"{path}.kind", kind, ("Dedicated", "Managed", "Shared"))
    if kind is not None:
        start, shape = ("/subscriptions/", _MANAGED_DISK) if kind == "Managed" else ("https://", _BLOB_DISK)
        if not uri.startswith(start):
            yield fields.not_supported(f"{path}.diskURI", uri, (shape,))


def _gluster_namespace(value: Object, path: str) -> Errors:
    if (namespace := value.get("endpointsNamespace")) is not None:
        yield from _named(names.dns_label, namespace, f"{path}.endpointsNamespace")


def _secret_namespace(value: Object, path: str) -> Errors:
    if value.get("secretNamespace") == "":
        yield fields.required(f"{path}.secretNamespace")


def _storage_os(value: Object, path: str) -> Errors:
    if not value.get("volumeName"):
        yield fields.required(f"{path}.volumeName")
    else:
        yield from _named(names.dns_label, value["volumeName"], f"{path}.volumeName")
    if namespace := value.get("volumeNamespace"):
        yield from _named(names.dns_label, namespace, f"{path}.volumeNamespace")


def _secret_has(*required: str) -> Check:
    def check(value: Object, path: str) -> Errors:
        if (secret := value.get("secretRef")) is not None:
            for name in required:
                if not secret.get(name):
                    yield fields.required(f"{path}.secretRef.{name}")

    return check


_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def _csi(value: Object, path: str) -> Errors:
    yield from csi_driver_name(value.get("driver", ""), f"{path}.driver")
    if not value.get("volumeHandle"):
        yield fields.required(f"{path}.volumeHandle")
    for name in _CSI_SECRETS:
        if (secret := value.get(name)) is None:
            continue
        for field, check in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
            if not secret.get(field):
                yield fields.required(f"{path}.{name}.{field}")
            else:
                yield from _named(check, secret[field], f"{path}.{name}.{field}")


def csi_driver_name(name: str, path: str) -> Errors:
    """CSI drivers are DNS subdomains in any case, as short as a label."""
    if not name:
        yield fields.required(path)
        return
    if len(name) > names.MAX_LABEL:
        yield fields.too_long(path, names.MAX_LABEL)
    yield from fields.malformed(path, name, names.dns_subdomain(name.lower()))


def _named(check: names.Check, value: str, path: str) -> Errors:
    yield from fields.malformed(path, value, check(value))


EVERYWHERE: dict[str, Source] = {
    "hostPath": Source(checks=(_host_path,)),
    "gcePersistentDisk": Source(required=("pdName",), checks=(_partition,), reported_as="persistentDisk"),
    "awsElasticBlockStore": Source(required=("volumeID",), checks=(_partition,)),
    "nfs": Source(required=("server", "path"), checks=(_nfs,)),
    "iscsi": Source(required=("targetPortal", "iqn"), checks=(_iscsi,)),
    "glusterfs": Source(required=("endpoints", "path")),
    "flocker": Source(checks=(_flocker,)),
    "rbd": Source(required=("monitors", "image")),
    "cinder": Source(required=("volumeID",), checks=(_secret_has("name"),)),
    "cephfs": Source(required=("monitors",)),
    "quobyte": Source(checks=(_quobyte,)),
    "fc": Source(checks=(_fibre_channel,)),
    "flexVolume": Source(required=("driver",), checks=(_flex_options,)),
    "azureFile": Source(required=("secretName", "shareName")),
    "vsphereVolume": Source(required=("volumePath",)),
    "photonPersistentDisk": Source(required=("pdID",)),
    "portworxVolume": Source(required=("volumeID",)),
    "azureDisk": Source(required=("diskName", "diskURI"), checks=(_azure_disk,)),
    "scaleIO": Source(required=("gateway", "system", "volumeName")),
    "storageos": Source(checks=(_storage_os, _secret_has("name"))),
}
"""Sources that a pod may name directly and a PersistentVolume may stand for."""

_VOLUMES: dict[str, Source] = EVERYWHERE | {
    "glusterfs": Source(required=("endpoints", "path"), checks=(_gluster_namespace,)),
    "iscsi": Source(required=("targetPortal", "iqn"), checks=(_iscsi, _secret_has("name"))),
    "cinder": Source(required=("volumeID",), checks=(_secret_has("name", "namespace"),)),
    "azureFile": Source(required=("secretName", "shareName"), checks=(_secret_namespace,)),
    "local": Source(required=("path",), checks=(_local,)),
    "storageos": Source(checks=(_storage_os, _secret_has("name", "namespace"))),
    "csi": Source(checks=(_csi,)),
}
_VOLUME_ORDER = (
    "hostPath gcePersistentDisk awsElasticBlockStore glusterfs flocker nfs rbd quobyte cephfs iscsi cinder fc "
    "flexVolume azureFile vsphereVolume photonPersistentDisk portworxVolume azureDisk scaleIO local storageos csi"
)
OF_VOLUMES: dict[str, Source] = {name: _VOLUMES[name] for name in _VOLUME_ORDER.split()}
"""Sources of a PersistentVolume. `local` is only here: a pod gets a local volume through a claim."""


def of_volume(spec: Object) -> str:
    """The name of a PersistentVolume's source, the first one where there are several; empty where there is none."""
    return next((name for name in OF_VOLUMES if name in spec), "")
