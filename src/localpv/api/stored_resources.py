"""The stable kinds of Kubernetes that nothing here acts on: their objects are kept for the programs that do.

Apart from `resources`, because only the server knows them: an agent has no use for them and does not load them.
"""

from __future__ import annotations

from localpv.api.resources import BUILT_IN, Resource, built_in

_STATUS = ("status",)
_ALL = ("all",)


def _stored(api_version: str, kind: str, plural: str, *, namespaced: bool, **more: object) -> Resource:
    group, _, version = api_version.rpartition("/")
    package = group.partition(".")[0] or "core"
    return built_in(group, version, package, kind, plural, namespaced=namespaced, **more)


STORED: tuple[Resource, ...] = (
    _stored("v1", "Endpoints", "endpoints", namespaced=True, short_names=("ep",)),
    _stored("v1", "LimitRange", "limitranges", namespaced=True, short_names=("limits",)),
    _stored("v1", "ResourceQuota", "resourcequotas", namespaced=True, short_names=("quota",), subresources=_STATUS),
    _stored("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True,
            short_names=("hpa",), categories=_ALL, subresources=_STATUS),
    _stored("batch/v1", "CronJob", "cronjobs", namespaced=True, short_names=("cj",), categories=_ALL,
            subresources=_STATUS),
    _stored("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", namespaced=True),
    _stored("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "flowschemas", namespaced=False, subresources=_STATUS),
    _stored("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", "prioritylevelconfigurations",
            namespaced=False, subresources=_STATUS),
    _stored("networking.k8s.io/v1", "Ingress", "ingresses", namespaced=True, short_names=("ing",),
            subresources=_STATUS),
    _stored("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False),
    _stored("networking.k8s.io/v1", "IPAddress", "ipaddresses", namespaced=False, short_names=("ip",)),
    _stored("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", namespaced=True, short_names=("netpol",)),
    _stored("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", namespaced=False, subresources=_STATUS),
    _stored("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False),
    _stored("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True, short_names=("pdb",),
            subresources=_STATUS),
    _stored("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False),
    _stored("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", namespaced=True, subresources=_STATUS),
    _stored("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True),
    _stored("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False,
            selectable_fields=("spec.driver", "spec.nodeName")),
    _stored("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",)),
    _stored("storage.k8s.io/v1", "VolumeAttributesClass", "volumeattributesclasses", namespaced=False,
            short_names=("vac",)),
)  # fmt: skip

EVERY: tuple[Resource, ...] = (*BUILT_IN, *STORED)
"""All that the server serves and stores."""
