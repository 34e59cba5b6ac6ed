"""Kinds that are only stored: their tables, by the definitions of the schema that they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from localpv.api import names, selectors
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import network_checks, stored_checks
from localpv.engine.apiserver.kinds import stored_checks as checks
from localpv.engine.apiserver.kinds.rules import Form, Rules, Tables

PROTOCOLS = ("SCTP", "TCP", "UDP")
CHANGES: dict[str, Callable[[Object, Object], Iterable[FieldError]]] = {"ServiceCIDR": network_checks.changed_ranges}
"""Changes that are allowed in part, by the kind."""

ALSO: dict[str, Callable[[Object], Iterable[FieldError]]] = {
    "CronJob": checks.cron_job,
    "EndpointSlice": network_checks.endpoint_slice,
    "FlowSchema": checks.flow_schema,
    "Ingress": network_checks.ingress_class_of,
    "PriorityClass": checks.priority_class,
    "PriorityLevelConfiguration": checks.level,
    "RuntimeClass": checks.runtime_class,
    "VolumeAttributesClass": checks.attributes,
}
"""What is asked of whole objects of a kind, by the kind."""

NAMES: dict[str, Form] = {"IPAddress": network_checks.address}
"""Kinds whose names are not DNS subdomains."""

_PORT = Rules(
    enum={"protocol": PROTOCOLS},
    form={"name": names.dns_label, "appProtocol": names.qualified_name},
    instead_of_zero={"protocol": "TCP"},
)
_REQUEST = Rules(
    required=("deviceClassName",),
    form={"deviceClassName": names.dns_subdomain},
    enum={"allocationMode": ("All", "ExactCount")},
    most_items={"selectors": 32},
    instead_of_zero={"allocationMode": "ExactCount"},
    fill_in=checks.complete_request,
    also=checks.count,
)
_METRIC = Rules(required=("name",), form={"name": names.path_segment})
_CONDITIONS = Rules(unique={"conditions": "type"})
_NAMED_CONDITION = Rules(required=("type",))
_USAGE = checks.measured("averageValue", "averageUtilization")

_TABLES: dict[str, Rules] = {
    "core.v1.EndpointSubset": Rules(also=network_checks.subset),
    "core.v1.EndpointAddress": Rules(form={"hostname": names.dns_label, "nodeName": names.dns_subdomain},
                                     also=network_checks.endpoint_address),
    "core.v1.EndpointPort": _PORT,
    "core.v1.LimitRangeSpec": Rules(unique={"limits": "type"}),
    "core.v1.LimitRangeItem": Rules(fill_in=stored_checks.complete_limits, also=stored_checks.limit_types),
    "core.v1.ResourceQuotaSpec": Rules(also=stored_checks.quota),
    "core.v1.ResourceQuotaStatus": Rules(also=stored_checks.quota_status),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": Rules(
        least={"minReplicas": 1}, default={"minReplicas": 1}, fill_in=checks.complete_scaling, also=checks.scaled),
    "autoscaling.v2.HorizontalPodAutoscalerStatus": Rules(least={"currentReplicas": 0, "desiredReplicas": 0}),
    "autoscaling.v2.CrossVersionObjectReference": Rules(
        required=("kind", "name"), form={"kind": names.path_segment, "name": names.path_segment}),
    "autoscaling.v2.MetricSpec": Rules(union=("type", {
        "ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods",
        "Resource": "resource"})),
    "autoscaling.v2.MetricIdentifier": _METRIC,
    "autoscaling.v2.MetricTarget": Rules(least={"averageUtilization": 1}, also=checks.target),
    "autoscaling.v2.ResourceMetricSource": Rules(required=("name",), also=_USAGE),
    "autoscaling.v2.ContainerResourceMetricSource": Rules(
        required=("name", "container"), form={"container": names.dns_label}, also=_USAGE),
    "autoscaling.v2.PodsMetricSource": Rules(also=checks.measured("averageValue")),
    "autoscaling.v2.ObjectMetricSource": Rules(also=checks.measured("value", "averageValue")),
    "autoscaling.v2.ExternalMetricSource": Rules(also=checks.measured("value", "averageValue")),
    "autoscaling.v2.HPAScalingRules": Rules(
        required=("policies",), enum={"selectPolicy": ("Disabled", "Max", "Min")},
        least={"stabilizationWindowSeconds": 0}, most={"stabilizationWindowSeconds": 3600}),
    "autoscaling.v2.HPAScalingPolicy": Rules(
        enum={"type": ("Percent", "Pods")}, least={"value": 1, "periodSeconds": 1}, most={"periodSeconds": 1800}),
    "batch.v1.CronJobSpec": Rules(
        required=("schedule",), enum={"concurrencyPolicy": ("Allow", "Forbid", "Replace")},
        least={"startingDeadlineSeconds": 0, "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0},
        default={"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1},
        instead_of_zero={"concurrencyPolicy": "Allow"},
        fill_in=checks.complete_cron, also=checks.cron_spec),
    "discovery.v1.EndpointSlice": Rules(
        required=("addressType",), enum={"addressType": ("FQDN", "IPv4", "IPv6")}, unique={"ports": "name"},
        most_items={"endpoints": 1000, "ports": 20000}),
    "discovery.v1.Endpoint": Rules(
        required=("addresses",), most_items={"addresses": 100}, default={"conditions": {}},
        form={"hostname": names.dns_label, "nodeName": names.dns_subdomain}),
    "discovery.v1.EndpointPort": Rules(
        enum={"protocol": PROTOCOLS}, form={"name": names.dns_label, "appProtocol": names.qualified_name},
        default={"name": "", "protocol": "TCP"}),
    "discovery.v1.EndpointHints": Rules(
        most_items={"forZones": 8, "forNodes": 8}, unique={"forZones": "name", "forNodes": "name"}),
    "flowcontrol.v1.FlowSchemaSpec": Rules(
        least={"matchingPrecedence": 1}, most={"matchingPrecedence": 10000},
        instead_of_zero={"matchingPrecedence": 1000}),
    "flowcontrol.v1.FlowDistinguisherMethod": Rules(enum={"type": ("ByNamespace", "ByUser")}),
    "flowcontrol.v1.PriorityLevelConfigurationReference": Rules(
        required=("name",), form={"name": names.dns_subdomain}),
    "flowcontrol.v1.PolicyRulesWithSubjects": Rules(required=("subjects",), also=checks.flow_rule),
    "flowcontrol.v1.Subject": Rules(union=("kind", {
        "Group": "group", "ServiceAccount": "serviceAccount", "User": "user"})),
    "flowcontrol.v1.GroupSubject": Rules(required=("name",)),
    "flowcontrol.v1.UserSubject": Rules(required=("name",)),
    "flowcontrol.v1.ServiceAccountSubject": Rules(required=("name", "namespace"), form={"namespace": names.dns_label}),
    "flowcontrol.v1.ResourcePolicyRule": Rules(
        required=("verbs", "apiGroups", "resources"), also=checks.flow_resources),
    "flowcontrol.v1.NonResourcePolicyRule": Rules(required=("verbs", "nonResourceURLs"), also=checks.flow_paths),
    "flowcontrol.v1.FlowSchemaStatus": _CONDITIONS,
    "flowcontrol.v1.FlowSchemaCondition": _NAMED_CONDITION,
    "flowcontrol.v1.PriorityLevelConfigurationStatus": _CONDITIONS,
    "flowcontrol.v1.PriorityLevelConfigurationCondition": _NAMED_CONDITION,
    "flowcontrol.v1.PriorityLevelConfigurationSpec": Rules(union=("type", {"Exempt": "", "Limited": "limited"})),
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": Rules(
        least={"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0},
        most={"lendablePercent": 100}, default={"nominalConcurrencyShares": 30, "lendablePercent": 0}),
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": Rules(
        least={"nominalConcurrencyShares": 0, "lendablePercent": 0}, most={"lendablePercent": 100},
        default={"nominalConcurrencyShares": 0, "lendablePercent": 0}),
    "flowcontrol.v1.LimitResponse": Rules(union=("type", {"Queue": "queuing", "Reject": ""})),
    "flowcontrol.v1.QueuingConfiguration": Rules(
        least={"queues": 1, "handSize": 1, "queueLengthLimit": 1}, most={"queues": 10_000_000},
        instead_of_zero={"queues": 64, "handSize": 8, "queueLengthLimit": 50}, also=checks.queuing),
    "networking.v1.IngressSpec": Rules(form={"ingressClassName": names.dns_subdomain}, also=network_checks.ingress),
    "networking.v1.IngressRule": Rules(form={"host": network_checks.host_of_rule}),
    "networking.v1.IngressTLS": Rules(form={"hosts": network_checks.host, "secretName": names.dns_subdomain}),
    "networking.v1.HTTPIngressRuleValue": Rules(required=("paths",)),
    "networking.v1.HTTPIngressPath": Rules(
        required=("pathType",), enum={"pathType": ("Exact", "ImplementationSpecific", "Prefix")},
        also=network_checks.http_path),
    "networking.v1.IngressBackend": Rules(also=network_checks.backend),
    "networking.v1.IngressServiceBackend": Rules(required=("name",), form={"name": names.dns1035_label}),
    "networking.v1.IngressLoadBalancerIngress": Rules(
        form={"hostname": network_checks.host_of_rule, "ip": network_checks.address}),
    "networking.v1.IngressClassSpec": Rules(
        required=("controller",), form={"controller": network_checks.controller},
        also=network_checks.controller_length),
    "networking.v1.IngressClassParametersReference": Rules(
        enum={"scope": ("Cluster", "Namespace")}, form={"namespace": names.dns_label}, default={"scope": "Cluster"},
        also=network_checks.parameters),
    "networking.v1.IPAddressSpec": Rules(required=("parentRef",)),
    "networking.v1.ParentReference": Rules(
        required=("resource", "name"),
        form={"group": names.dns_subdomain, "resource": names.path_segment, "name": names.path_segment,
              "namespace": names.path_segment}),
    "networking.v1.ServiceCIDRSpec": Rules(
        required=("cidrs",), form={"cidrs": network_checks.network}, also=network_checks.ranges),
    "networking.v1.NetworkPolicySpec": Rules(
        enum={"policyTypes": ("Egress", "Ingress")}, default={"podSelector": {}}, fill_in=network_checks.policy_types),
    "networking.v1.NetworkPolicyPort": Rules(
        enum={"protocol": PROTOCOLS}, default={"protocol": "TCP"}, also=network_checks.policy_port),
    "networking.v1.NetworkPolicyPeer": Rules(also=network_checks.peer),
    "networking.v1.IPBlock": Rules(
        required=("cidr",), form={"cidr": network_checks.network, "except": network_checks.network},
        also=network_checks.block),
    "policy.v1.PodDisruptionBudgetSpec": Rules(
        enum={"unhealthyPodEvictionPolicy": ("AlwaysAllow", "IfHealthyBudget")}, also=checks.budget),
    "policy.v1.PodDisruptionBudgetStatus": Rules(
        least={"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
    "resource.v1.DeviceClaim": Rules(
        most_items={"requests": 32, "constraints": 32, "config": 32}, unique_elements={"requests": "name"}),
    "resource.v1.DeviceRequest": Rules(
        one_of=("exactly", "firstAvailable"), most_items={"firstAvailable": 8},
        unique_elements={"firstAvailable": "name"}, also=checks.named),
    "resource.v1.ExactDeviceRequest": _REQUEST,
    "resource.v1.DeviceSubRequest": replace(_REQUEST, also=checks.named_request),
    "resource.v1.ResourceClaimTemplateSpec": Rules(default={"metadata": {}}),
    "resource.v1.DeviceSelector": Rules(required=("cel",)),
    "resource.v1.CELDeviceSelector": Rules(required=("expression",)),
    "resource.v1.DeviceConstraint": Rules(required=("matchAttribute",)),
    "resource.v1.DeviceClaimConfiguration": Rules(required=("opaque",)),
    "resource.v1.DeviceClassSpec": Rules(most_items={"selectors": 32, "config": 32}),
    "resource.v1.DeviceClassConfiguration": Rules(required=("opaque",)),
    "resource.v1.OpaqueDeviceConfiguration": Rules(required=("driver", "parameters"), form={"driver": checks.driver}),
    "resource.v1.ResourceSliceSpec": Rules(
        required=("driver",), form={"driver": checks.driver, "nodeName": names.dns_subdomain},
        most_items={"devices": 128}, unique_elements={"devices": "name"}, also=checks.on_nodes),
    "resource.v1.ResourcePool": Rules(
        required=("name",), form={"name": checks.pool}, least={"resourceSliceCount": 1, "generation": 0}),
    "resource.v1.Device": Rules(also=checks.named),
    "scheduling.v1.PriorityClass": Rules(
        enum={"preemptionPolicy": ("Never", "PreemptLowerPriority")},
        default={"preemptionPolicy": "PreemptLowerPriority"}),
    "storage.v1.VolumeAttributesClass": Rules(required=("driverName",)),
}  # fmt: skip

TABLES: Tables = {f"io.k8s.api.{name}": rules for name, rules in _TABLES.items()} | {
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector": Rules(also=selectors.validate)
}
"""By the full name of a definition."""
