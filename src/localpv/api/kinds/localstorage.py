"""LocalStorage: which devices of which nodes become volumes of which class; LocalStorageNode: what came of it there.

Administrators write LocalStorages. The operator turns each into a DaemonSet for every group of nodes; the discoverer on
a node writes one LocalStorageNode for each LocalStorage that it serves there, and the operator writes the status of the
LocalStorage from those. The CustomResourceDefinitions are generated from these structs (`api/crds`): what is written
below a field is what `kubectl explain` shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from localpv.api.kinds import checks
from localpv.api.kinds.localdisk import Medium, VolumeMode
from localpv.api.kinds.meta import Kind, Part
from localpv.api.kinds.pods import Toleration
from localpv.api.resources import Resource

LOCAL_STORAGES = Resource(
    group="local.storage.openshift.com",
    version="v1alpha1",
    kind="LocalStorage",
    plural="localstorages",
    singular="localstorage",
    namespaced=True,
    schema="com.openshift.storage.local.v1alpha1.LocalStorage",
    short_names=("ls",),
    categories=("localpv",),
    subresources=("status",),
    list_kind="LocalStorageList",
    custom=True,
)

LOCAL_STORAGE_NODES = Resource(
    group="localpv.dev",
    version="v1alpha1",
    kind="LocalStorageNode",
    plural="localstoragenodes",
    singular="localstoragenode",
    namespaced=True,
    schema="dev.localpv.v1alpha1.LocalStorageNode",
    short_names=("lsn",),
    categories=("localpv",),
    subresources=("status",),
    list_kind="LocalStorageNodeList",
    custom=True,
    selectable_fields=("spec.nodeName", "spec.localStorageName"),
)

FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs")
"""What fsType may be."""

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_CLASS = checks.rule(minLength=1, maxLength=253, pattern=_SUBDOMAIN)
_MEDIUM = checks.rule(enum=[medium.value for medium in Medium if medium])
_ARGUMENT = checks.rule(maxLength=64)
_MANY = checks.rule(maxItems=64)
_SIZE = checks.rule(maxLength=32, pattern=r"^[0-9]+(\.[0-9]*)?([numkMGTPE]|[KMGTPE]i|[eE][+]?[0-9]+)?$")
_WILDCARD = checks.rule(minLength=1, maxLength=64, pattern=r'^[^/|"\\$%]+$')
_VALUE = checks.rule(minLength=1, maxLength=64, pattern=r'^[^|"\\$%]+$')
_MATCH = checks.rule(minLength=1, maxLength=1024, pattern=r"^[\t -~]+$")
_DEVICES = checks.rule(anyOf=[{"required": ["deviceNames"]}, {"required": ["udevRules"]}])
_NODES = checks.rule(**{"required": ["devices"], "not": {"required": ["nodeName", "nodeSelector"]}})


class DeviceGroup(Part, frozen=True, kw_only=True):
    """Devices that belong to one StorageClass: those that one of deviceNames or one of udevRules matches."""

    storage_class_name: Annotated[str, _CLASS]
    """StorageClass of the matched devices. It is made if there is none of that name."""

    volume_mode: Annotated[str, checks.one_of(VolumeMode)] = ""
    """Block: volumes are raw devices. Filesystem, the default: devices are formatted and mounted for pods."""

    device_names: Annotated[tuple[Annotated[str, _WILDCARD], ...], _MANY] = ()
    """Wildcards on kernel names, such as sdb, sd[b-z] or nvme*n1. Names below /dev/disk/by-id are matched with
    udevRules."""

    udev_rules: Annotated[tuple[Annotated[str, _MATCH], ...], _MANY] = ()
    """Match keys of udev, such as KERNEL!="sda", ATTR{queue/rotational}=="0". Only == and != are allowed: what assigns
    or runs anything is refused."""

    exclude_device_names: Annotated[tuple[Annotated[str, _WILDCARD], ...], _MANY] = ()
    """Wildcards on kernel names of devices that are never meant."""

    fs_type: Annotated[str, checks.rule(enum=list(FILE_SYSTEMS))] = ""
    """File system that devices are formatted with, for volumeMode Filesystem; the default is ext4."""

    block_cleaner_command: Annotated[tuple[Annotated[str, _ARGUMENT], ...], checks.rule(maxItems=2)] = ()
    """How released devices are cleaned: a built-in method such as blkdiscard or dd-zero with its argument. Without it
    the method is chosen by the volume mode. A program of one's own is refused: it would run as root on every node."""

    min_size: Annotated[str, _SIZE] = ""
    """Smallest size of a device, as a quantity such as 100Gi."""

    max_size: Annotated[str, _SIZE] = ""
    """Largest size of a device, as a quantity."""

    medium_types: Annotated[tuple[Annotated[str, _MEDIUM], ...], checks.rule(maxItems=3)] = ()
    """What the data is kept on: HDD, SSD or NVMe; all where none is named."""

    vendors: Annotated[tuple[Annotated[str, _VALUE], ...], _MANY] = ()
    """Wildcards on the vendor, as udev has it in ID_VENDOR."""

    models: Annotated[tuple[Annotated[str, _VALUE], ...], _MANY] = ()
    """Wildcards on the model, as udev has it in ID_MODEL."""

    max_device_count: Annotated[int, checks.rule(minimum=0, maximum=65536)] = 0
    """How many devices of one node this group takes at most; absent or 0 for all."""

    allow_network_disks: bool = False
    """Whether disks that come over a network (iSCSI, rbd, nbd, drbd, NVMe over fabrics, a cloud) are meant too. Others
    attach them for their own volumes, so they are left alone unless this says otherwise."""


class NodeGroup(Part, frozen=True, kw_only=True):
    """Nodes on which the same devices are meant: those of nodeSelector, or the one of nodeName, or all."""

    node_selector: Mapping[str, Any] | None = None
    """Labels of the nodes, or a NodeSelector with nodeSelectorTerms. Not together with nodeName."""

    node_name: Annotated[str, checks.NAME] = ""
    """Name of the one node. Not together with nodeSelector."""

    tolerations: Annotated[tuple[Toleration, ...], _MANY] = ()
    """Taints of nodes that are served all the same."""

    devices: Annotated[tuple[Annotated[DeviceGroup, _DEVICES], ...], checks.rule(minItems=1, maxItems=64)] = ()
    """Which devices, and which class each belongs to."""


class LocalStorageSpec(Part, frozen=True, kw_only=True):
    """Which devices of which nodes become volumes of which class."""

    storage_classes: Annotated[tuple[Annotated[str, _CLASS], ...], _MANY] = ()
    """StorageClasses that are made besides those of the devices."""

    nodes: Annotated[tuple[Annotated[NodeGroup, _NODES], ...], checks.rule(minItems=1, maxItems=64)] = ()
    """Groups of nodes and their devices."""


class StorageCondition(Part, frozen=True, kw_only=True):
    """One thing that is known about a LocalStorage."""

    type: Annotated[str, checks.rule(minLength=1, maxLength=64)]
    """What the condition is about."""

    status: Annotated[str, checks.TRUTH]
    """Whether it holds: True, False or Unknown."""

    reason: Annotated[str, checks.WORD] = ""
    """Why, as one word for programs."""

    message: Annotated[str, checks.SENTENCE] = ""
    """Why, as a sentence for people."""

    observed_generation: Annotated[int, checks.COUNT] = 0
    """Generation of the LocalStorage that was looked at."""

    last_transition_time: Annotated[str | None, checks.TIME] = None
    """Since when the status is what it is."""


class NodeSummary(Part, frozen=True, kw_only=True):
    """What came of a LocalStorage on one node."""

    name: Annotated[str, checks.NAME]
    """Name of the node."""

    generation: Annotated[int, checks.COUNT] = 0
    """Generation of the LocalStorage whose rules the node has."""

    matched: Annotated[int, checks.COUNT] = 0
    """Devices that the rules matched."""

    published: Annotated[int, checks.COUNT] = 0
    """Devices that a PersistentVolume offers."""

    message: Annotated[str, checks.SENTENCE] = ""
    """What is wrong there, if anything."""


class LocalStorageStatus(Part, frozen=True, kw_only=True):
    """What the operator has seen."""

    observed_generation: Annotated[int, checks.COUNT] = 0
    """Generation of the spec that the status is about."""

    conditions: Annotated[tuple[StorageCondition, ...], checks.rule(maxItems=16)] = ()
    """Accepted, Available, Progressing and Deleting, each with its reason."""

    node_count: Annotated[int, checks.COUNT] = 0
    """Nodes that are served."""

    current_nodes: Annotated[int, checks.COUNT] = 0
    """Nodes that have the rules of this generation."""

    matched_devices: Annotated[int, checks.COUNT] = 0
    """Devices that the rules matched, on all nodes."""

    published_devices: Annotated[int, checks.COUNT] = 0
    """Devices that a PersistentVolume offers, on all nodes."""

    nodes: Annotated[tuple[NodeSummary, ...], _MANY] = ()
    """Nodes, those with problems first, at most 64. Each device is in the LocalStorageNode of its node."""


class LocalStorage(Kind, frozen=True, kw_only=True):
    """Which devices of which nodes become volumes of which class. For administrators of the cluster only."""

    resource: ClassVar[Resource] = LOCAL_STORAGES

    spec: Annotated[LocalStorageSpec, checks.rule(required=["nodes"])] = LocalStorageSpec()
    """Which devices of which nodes become volumes of which class."""

    status: LocalStorageStatus = LocalStorageStatus()
    """What the operator has seen."""


class MatchedDevice(Part, frozen=True, kw_only=True):
    """A block device of the node, and what the rules say about it."""

    device: Annotated[str, checks.rule(minLength=1, maxLength=255)]
    """Kernel name of the device, such as sdb."""

    link: Annotated[str, checks.rule(maxLength=4096)] = ""
    """Link that the rules made, below /dev; absent for a device that is not matched."""

    storage_class_name: Annotated[str, checks.rule(maxLength=253)] = ""
    """StorageClass that the device belongs to."""

    volume_mode: Annotated[str, checks.rule(enum=["", *map(str, VolumeMode)])] = ""
    """Volume mode of the device."""

    rule: Annotated[str, checks.rule(maxLength=128)] = ""
    """The rule that matched it, such as nodes[0].devices[1].udevRules[0]."""

    reason: Annotated[str, checks.WORD] = ""
    """Why there is no link, as one word for programs."""

    message: Annotated[str, checks.rule(maxLength=1024)] = ""
    """Why there is no link, as a sentence for people."""


class LocalStorageNodeSpec(Part, frozen=True, kw_only=True):
    """Which LocalStorage on which node."""

    node_name: Annotated[str, checks.NAME]
    """Name of the node. Written once, by its discoverer."""

    local_storage_name: Annotated[str, checks.NAME]
    """Name of the LocalStorage, which is in the same namespace."""

    local_storage_uid: Annotated[str, checks.rule(minLength=1, maxLength=128)] = msgspec.field(name="localStorageUID")
    """UID of the LocalStorage."""


class LocalStorageNodeStatus(Part, frozen=True, kw_only=True):
    """What the discoverer of the node has done and seen."""

    generation: Annotated[int, checks.COUNT] = 0
    """Generation of the LocalStorage whose rules are in force on the node."""

    matched: Annotated[int, checks.COUNT] = 0
    """How many devices the rules matched, also where the list below is cut."""

    devices: Annotated[tuple[MatchedDevice, ...], checks.rule(maxItems=256)] = ()
    """The block devices of the node, matched ones first, at most 256."""

    error: Annotated[str, checks.SENTENCE] = ""
    """Why the rules are not in force, if they are not."""

    observed_at: Annotated[str | None, checks.TIME] = None
    """When this changed last."""


class LocalStorageNode(Kind, frozen=True, kw_only=True):
    """What came of one LocalStorage on one node: written by the discoverer there."""

    resource: ClassVar[Resource] = LOCAL_STORAGE_NODES

    spec: LocalStorageNodeSpec
    """Which LocalStorage on which node."""

    status: LocalStorageNodeStatus = LocalStorageNodeStatus()
    """What the discoverer of the node has done and seen."""
