"""Which resources the API has: the built-in ones here, those of CustomResourceDefinitions in the same form."""

from __future__ import annotations

from dataclasses import dataclass, field

from localpv.api import well_known

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind at an address: `/apis/GROUP/VERSION/[namespaces/NS/]PLURAL`."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str = ""
    namespaced: bool
    schema: str
    """Name of the definition in the schema catalogue, such as io.k8s.api.core.v1.Pod."""

    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    stored_as: str = ""
    """Key prefix in the store when it differs from plural.group: the two Event kinds share one."""

    list_kind: str = ""
    custom: bool = False
    selectable_fields: tuple[str, ...] = field(default=())
    """Field selectors beyond metadata.name and metadata.namespace, as paths without the leading dot."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`persistentvolumes`, or `statefulsets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_prefix(self) -> str:
        return self.stored_as or self.qualified

    @property
    def path(self) -> str:
        """Address of the group and version, without a slash at the end."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def _core(kind: str, plural: str, *, namespaced: bool, **more: object) -> Resource:
    return built_in("", "v1", "core", kind, plural, namespaced=namespaced, **more)


def built_in(group: str, version: str, package: str, kind: str, plural: str, **more: object) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        schema=f"io.k8s.api.{package}.{version}.{kind}",
        **more,  # type: ignore[arg-type]
    )


_RBAC = well_known.RBAC_GROUP
_STORAGE = well_known.STORAGE_GROUP
_ADMISSION = well_known.ADMISSION_GROUP

BUILT_IN: tuple[Resource, ...] = (
    _core("Namespace", "namespaces", namespaced=False, short_names=("ns",), subresources=("status", "finalize"),
          verbs=tuple(v for v in ALL_VERBS if v != "deletecollection"), selectable_fields=("status.phase",)),
    _core("Node", "nodes", namespaced=False, short_names=("no",), subresources=("status",),
          selectable_fields=("spec.unschedulable",)),
    _core("Pod", "pods", namespaced=True, short_names=("po",), categories=("all",),
          subresources=("status", "binding", "eviction", "log", "exec"),
          selectable_fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
                             "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs",
                             "status.nominatedNodeName")),
    _core("PersistentVolume", "persistentvolumes", namespaced=False, short_names=("pv",), subresources=("status",)),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True, short_names=("pvc",),
          subresources=("status",)),
    _core("ConfigMap", "configmaps", namespaced=True, short_names=("cm",)),
    _core("Secret", "secrets", namespaced=True, selectable_fields=("type",)),
    _core("ServiceAccount", "serviceaccounts", namespaced=True, short_names=("sa",), subresources=("token",)),
    _core("Event", "events", namespaced=True, short_names=("ev",), stored_as="events",
          selectable_fields=("involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
                             "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
                             "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type")),
    _core("Service", "services", namespaced=True, short_names=("svc",), categories=("all",), subresources=("status",),
          selectable_fields=("spec.clusterIP", "spec.type")),
    _core("ReplicationController", "replicationcontrollers", namespaced=True, short_names=("rc",), categories=("all",),
          subresources=("status", "scale"), selectable_fields=("status.replicas",)),
    _core("PodTemplate", "podtemplates", namespaced=True),
    built_in("events.k8s.io", "v1", "events", "Event", "events", namespaced=True, short_names=("ev",),
             stored_as="events",
             selectable_fields=("reason", "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
                                "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath",
                                "reportingController", "type")),
    built_in(_STORAGE, "v1", "storage", "StorageClass", "storageclasses", namespaced=False, short_names=("sc",)),
    built_in(_STORAGE, "v1", "storage", "CSIDriver", "csidrivers", namespaced=False),
    built_in(_STORAGE, "v1", "storage", "CSINode", "csinodes", namespaced=False),
    built_in(_STORAGE, "v1", "storage", "CSIStorageCapacity", "csistoragecapacities", namespaced=True),
    built_in(_STORAGE, "v1", "storage", "VolumeAttachment", "volumeattachments", namespaced=False,
             subresources=("status",)),
    built_in("apps", "v1", "apps", "StatefulSet", "statefulsets", namespaced=True, short_names=("sts",),
             categories=("all",), subresources=("status", "scale")),
    built_in("apps", "v1", "apps", "Deployment", "deployments", namespaced=True, short_names=("deploy",),
             categories=("all",), subresources=("status", "scale")),
    built_in("apps", "v1", "apps", "ReplicaSet", "replicasets", namespaced=True, short_names=("rs",),
             categories=("all",), subresources=("status", "scale")),
    built_in("apps", "v1", "apps", "DaemonSet", "daemonsets", namespaced=True, short_names=("ds",),
             categories=("all",), subresources=("status",)),
    built_in("apps", "v1", "apps", "ControllerRevision", "controllerrevisions", namespaced=True),
    built_in("batch", "v1", "batch", "Job", "jobs", namespaced=True, categories=("all",), subresources=("status",),
             selectable_fields=("status.successful",)),
    built_in("coordination.k8s.io", "v1", "coordination", "Lease", "leases", namespaced=True),
    built_in(_RBAC, "v1", "rbac", "Role", "roles", namespaced=True),
    built_in(_RBAC, "v1", "rbac", "RoleBinding", "rolebindings", namespaced=True),
    built_in(_RBAC, "v1", "rbac", "ClusterRole", "clusterroles", namespaced=False),
    built_in(_RBAC, "v1", "rbac", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    built_in(_ADMISSION, "v1", "admissionregistration", "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
             namespaced=False, categories=("api-extensions",), subresources=("status",)),
    built_in(_ADMISSION, "v1", "admissionregistration", "ValidatingAdmissionPolicyBinding",
             "validatingadmissionpolicybindings", namespaced=False, categories=("api-extensions",)),
    built_in(_ADMISSION, "v1", "admissionregistration", "ValidatingWebhookConfiguration",
             "validatingwebhookconfigurations", namespaced=False, categories=("api-extensions",)),
    built_in(_ADMISSION, "v1", "admissionregistration", "MutatingWebhookConfiguration",
             "mutatingwebhookconfigurations", namespaced=False, categories=("api-extensions",)),
    Resource(group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition",
             plural="customresourcedefinitions", singular="customresourcedefinition", namespaced=False,
             schema="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
             short_names=("crd", "crds"), categories=("api-extensions",), subresources=("status",),
             list_kind="CustomResourceDefinitionList"),
)  # fmt: skip
"""Every built-in resource that the embedded engine serves."""

BINDINGS = _core("Binding", "bindings", namespaced=True, verbs=("create",))
"""Where a scheduler says which node a pod goes to."""

REVIEWS: tuple[Resource, ...] = (
    BINDINGS,
    built_in("authentication.k8s.io", "v1", "authentication", "TokenReview", "tokenreviews", namespaced=False,
             verbs=("create",)),
    built_in("authentication.k8s.io", "v1", "authentication", "SelfSubjectReview", "selfsubjectreviews",
             namespaced=False, verbs=("create",)),
    built_in("authorization.k8s.io", "v1", "authorization", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
             namespaced=False, verbs=("create",)),
    built_in("authorization.k8s.io", "v1", "authorization", "SelfSubjectRulesReview", "selfsubjectrulesreviews",
             namespaced=False, verbs=("create",)),
    built_in("authorization.k8s.io", "v1", "authorization", "SubjectAccessReview", "subjectaccessreviews",
             namespaced=False, verbs=("create",)),
    built_in("authorization.k8s.io", "v1", "authorization", "LocalSubjectAccessReview", "localsubjectaccessreviews",
             namespaced=True, verbs=("create",)),
)  # fmt: skip
"""Questions that are answered and never stored."""
