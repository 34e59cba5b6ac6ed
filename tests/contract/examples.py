"""One object of every kind that our engine only stores, and ways in which it would be wrong."""

from __future__ import annotations

from typing import Any

from tests.contract import builders
from tests.contract.builders import Object

LABELS = {"app": "demo"}
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
_JOB = {"template": {"spec": {**builders.pod()["spec"], "restartPolicy": "Never"}}}
_DEVICES = {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu.tests.localpv.dev"}}]}
_EXPRESSION = {"cel": {"expression": 'device.driver == "tests.localpv.dev"'}}

EXAMPLES: dict[str, Object] = {
    "Endpoints": {
        "subsets": [{"addresses": [{"ip": "10.1.2.3", "nodeName": "n"}], "ports": [{"port": 80, "name": "web"}]}]
    },
    "LimitRange": {
        "spec": {
            "limits": [
                {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"memory": "2Mi"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
            ]
        }
    },
    "ResourceQuota": {"spec": {"hard": {"pods": "3", "requests.cpu": "1500m", "limits.memory": "2Gi"}}},
    "HorizontalPodAutoscaler": {
        "spec": {"scaleTargetRef": _TARGET, "maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Min"}}}
    },
    "CronJob": {"spec": {"schedule": "*/5 1,2 * jan-mar MON", "jobTemplate": {"spec": _JOB}}},
    "EndpointSlice": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "hostname": "one"}],
        "ports": [{"port": 80}],
    },
    "FlowSchema": {
        "spec": {
            "priorityLevelConfiguration": {"name": "workload-low"},
            "rules": [
                {
                    "subjects": [{"kind": "Group", "group": {"name": "nobody.tests.localpv.dev"}}],
                    "resourceRules": [
                        {"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["nowhere"]}
                    ],
                }
            ],
        }
    },
    "PriorityLevelConfiguration": {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 16}}}}
    },
    "Ingress": {
        "spec": {
            "ingressClassName": "none.tests.localpv.dev",
            "defaultBackend": _BACKEND,
            "rules": [
                {"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _BACKEND}]}}
            ],
            "tls": [{"hosts": ["*.example.com"], "secretName": "tls"}],
        }
    },
    "IngressClass": {
        "spec": {
            "controller": "tests.localpv.dev/nobody",
            "parameters": {"apiGroup": "tests.localpv.dev", "kind": "Thing", "name": "one"},
        }
    },
    "IPAddress": {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "none"}}},
    "NetworkPolicy": {
        "spec": {
            "podSelector": {"matchLabels": LABELS},
            "ingress": [
                {
                    "ports": [{"port": 80, "endPort": 90}, {"port": "web"}],
                    "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, {"podSelector": {}}],
                }
            ],
            "egress": [{}],
        }
    },
    "ServiceCIDR": {"spec": {"cidrs": ["10.254.0.0/24"]}},
    "RuntimeClass": {"handler": "other", "scheduling": {"nodeSelector": {"runtime": "other"}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": "50%", "selector": {"matchLabels": LABELS}}},
    "DeviceClass": {"spec": {"selectors": [_EXPRESSION]}},
    "ResourceClaim": {"spec": {"devices": _DEVICES}},
    "ResourceClaimTemplate": {"spec": {"spec": {"devices": _DEVICES}}},
    "ResourceSlice": {
        "spec": {
            "driver": "tests.localpv.dev",
            "nodeName": "nowhere",
            "pool": {"name": "nowhere", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "one"}],
        }
    },
    "PriorityClass": {"value": 7, "description": "for tests"},
    "VolumeAttributesClass": {"driverName": "tests.localpv.dev", "parameters": {"iops": "7"}},
}
"""What there is beside apiVersion, kind and metadata."""

STATUS: dict[str, Object] = {
    "HorizontalPodAutoscaler": {"desiredReplicas": 2},
    "ResourceQuota": {"hard": {"pods": "3"}, "used": {"pods": "1"}},
    "CronJob": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
    "FlowSchema": {"conditions": [{"type": "Dangling", "status": "False"}]},
    "PriorityLevelConfiguration": {"conditions": [{"type": "Odd", "status": "True"}]},
    "Ingress": {"loadBalancer": {"ingress": [{"ip": "10.9.8.7"}]}},
    "PodDisruptionBudget": {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1},
    "ResourceClaim": {},
    "ServiceCIDR": {},
}
WRONG_STATUS: dict[str, Object] = {
    "HorizontalPodAutoscaler": {"desiredReplicas": -1},
    "ResourceQuota": {"used": {"odd": "1"}},
    "FlowSchema": {"conditions": [{"type": "A"}, {"type": "A"}]},
    "Ingress": {"loadBalancer": {"ingress": [{"hostname": "-"}]}},
    "PodDisruptionBudget": {"disruptionsAllowed": -1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1},
}

WRONG: dict[str, list[Object]] = {
    "Endpoints": [
        {"subsets": [{}]},
        {"subsets": [{"addresses": [{"ip": "nine"}]}]},
        {"subsets": [{"addresses": [{"ip": "127.0.0.1", "hostname": "A"}]}]},
        {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 0}]}]},
        {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1}, {"port": 2, "name": "-"}]}]},
        {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1, "protocol": "ICMP"}]}]},
    ],
    "LimitRange": [
        {"spec": {"limits": [{"type": "Odd"}]}},
        {"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}},
        {"spec": {"limits": [{"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}]}},
        {"spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}]}},
    ],
    "ResourceQuota": [
        {"spec": {"hard": {"odd": "1"}}},
        {"spec": {"hard": {"pods": "-1"}}},
        {"spec": {"hard": {"pods": "1500m"}}},
        {"spec": {"scopes": ["Odd"], "hard": None}},
        {"spec": {"scopes": ["BestEffort", "NotBestEffort"], "hard": {"pods": "1"}}},
    ],
    "HorizontalPodAutoscaler": [
        {"spec": {"maxReplicas": 0}},
        {"spec": {"minReplicas": 0}},
        {"spec": {"minReplicas": 9}},
        {"spec": {"scaleTargetRef": {"kind": "", "name": "a/b"}}},
        {"spec": {"scaleTargetRef": None}},
        {"spec": {"metrics": [{"type": "Odd"}]}},
        {"spec": {"metrics": [{"type": "Pods"}]}},
        {"spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value"}}}]}},
        {"spec": {"metrics": [{"type": "Resource", "resource": {"target": {"type": "Odd", "averageValue": "1"}}}]}},
        {
            "spec": {
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}},
                    }
                ]
            }
        },
        {"spec": {"metrics": [{"type": "Object", "object": {"target": {"type": "Value", "value": "1"}}}]}},
        {"spec": {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "selectPolicy": "Odd"}}}},
        {"spec": {"behavior": {"scaleUp": {"policies": [{"type": "Odd", "value": 0, "periodSeconds": 1801}]}}}},
    ],
    "CronJob": [
        {"spec": {"schedule": ""}},
        {"spec": {"schedule": "* * * *"}},
        {"spec": {"schedule": "60 * * * *"}},
        {"spec": {"schedule": "* * * * 7"}},
        {"spec": {"schedule": "5-1 * * * *"}},
        {"spec": {"schedule": "*/0 * * * *"}},
        {"spec": {"schedule": "@often"}},
        {"spec": {"schedule": "TZ=UTC * * * * *"}},
        {"spec": {"timeZone": ""}},
        {"spec": {"timeZone": "Local"}},
        {"spec": {"timeZone": "../etc"}},
        {"spec": {"concurrencyPolicy": "Odd"}},
        {"spec": {"startingDeadlineSeconds": -1, "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1}},
        {"spec": {"jobTemplate": {"spec": {"parallelism": -1}}}},
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}}},
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}},
        {"metadata": {"name": "x" * 53}},
    ],
    "EndpointSlice": [
        {"addressType": "Odd", "endpoints": []},
        {"addressType": "", "endpoints": []},
        {"endpoints": [{"addresses": []}]},
        {"endpoints": [{"addresses": ["nine"]}]},
        {"endpoints": [{"addresses": ["2001:db8::1"]}]},
        {"endpoints": [{"addresses": ["127.0.0.1"]}]},
        {"addressType": "FQDN", "endpoints": [{"addresses": ["short"]}]},
        {"endpoints": [{"addresses": ["10.1.2.3"], "hostname": "A", "nodeName": "_"}]},
        {"ports": [{"name": "a"}, {"name": "a"}]},
        {"ports": [{"protocol": "ICMP", "appProtocol": "-"}]},
    ],
    "FlowSchema": [
        {"spec": {"matchingPrecedence": -1}},
        {"spec": {"matchingPrecedence": 1}},
        {"spec": {"matchingPrecedence": 10001}},
        {"spec": {"priorityLevelConfiguration": {"name": ""}}},
        {"spec": {"distinguisherMethod": {"type": "Odd"}}},
        {"spec": {"rules": [{}]}},
        {"spec": {"rules": [{"subjects": [{"kind": "Odd"}], "nonResourceRules": [{}]}]}},
        {"spec": {"rules": [{"subjects": [{"kind": "User", "group": {"name": "g"}}], "resourceRules": [{}]}]}},
        {
            "spec": {
                "rules": [
                    {
                        "subjects": [{"kind": "User", "user": {}}],
                        "nonResourceRules": [{"verbs": ["*", "get"], "nonResourceURLs": ["*", "/a"]}],
                    }
                ]
            }
        },
    ],
    "PriorityLevelConfiguration": [
        {"spec": {"type": "Odd"}},
        {"spec": {"type": "Exempt"}},
        {"spec": {"limited": None}},
        {"spec": {"limited": {"lendablePercent": 101, "nominalConcurrencyShares": -1, "borrowingLimitPercent": -1}}},
        {"spec": {"limited": {"limitResponse": {"type": "Odd"}}}},
        {"spec": {"limited": {"limitResponse": {"queuing": None}}}},
        {"spec": {"limited": {"limitResponse": {"type": "Reject"}}}},
        {"spec": {"limited": {"limitResponse": {"queuing": {"queues": -1}}}}},
        {"spec": {"limited": {"limitResponse": {"queuing": {"queues": 4, "handSize": 5}}}}},
    ],
    "Ingress": [
        {"spec": {"rules": None, "defaultBackend": None}},
        {"spec": {"defaultBackend": {"service": {"name": ""}}}},
        {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 0}}}}},
        {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"name": "web"}}}}},
        {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 70000}}}}},
        {"spec": {"defaultBackend": {"service": {"name": "9", "port": {"number": 80}}}}},
        {"spec": {"defaultBackend": {"service": None}}},
        {"spec": {"defaultBackend": {"service": None, "resource": {"kind": "", "name": ""}}}},
        {"spec": {"rules": [{"host": "10.1.2.3"}]}},
        {"spec": {"rules": [{"host": "*"}]}},
        {"spec": {"rules": [{"host": "a.*.com"}]}},
        {"spec": {"rules": [{"http": {"paths": []}}]}},
        {"spec": {"rules": [{"http": {"paths": [{"path": "a", "pathType": "Exact", "backend": _BACKEND}]}}]}},
        {"spec": {"rules": [{"http": {"paths": [{"path": "/a//b", "pathType": "Prefix", "backend": _BACKEND}]}}]}},
        {"spec": {"rules": [{"http": {"paths": [{"path": "/a/..", "pathType": "Prefix", "backend": _BACKEND}]}}]}},
        {"spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Odd", "backend": _BACKEND}]}}]}},
        {"spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": _BACKEND}]}}]}},
        {"spec": {"tls": [{"hosts": ["-"], "secretName": "_"}]}},
        {"spec": {"ingressClassName": "_"}},
        {"metadata": {"annotations": {"kubernetes.io/ingress.class": "other"}}},
    ],
    "IngressClass": [
        {"spec": {"controller": ""}},
        {"spec": {"controller": "plain"}},
        {"spec": {"controller": f"tests.localpv.dev/{'x' * 240}"}},
        {"spec": {"parameters": {"kind": "", "name": "", "apiGroup": "_"}}},
        {"spec": {"parameters": {"scope": "Odd"}}},
        {"spec": {"parameters": {"scope": "Namespace"}}},
        {"spec": {"parameters": {"namespace": "one"}}},
    ],
    "IPAddress": [
        {"spec": {"parentRef": None}},
        {"spec": {"parentRef": {"resource": "", "name": "a/b", "group": "_"}}},
        {"metadata": {"name": "010.1.2.3"}},
        {"metadata": {"name": "plain"}},
    ],
    "NetworkPolicy": [
        {"spec": {"policyTypes": ["Odd"]}},
        {"spec": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}},
        {"spec": {"ingress": [{"ports": [{"port": 0}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": "UPPER"}]}]}},
        {"spec": {"ingress": [{"ports": [{"protocol": "ICMP"}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": 9, "endPort": 8}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": "web", "endPort": 8}]}]}},
        {"spec": {"ingress": [{"ports": [{"endPort": 8}]}]}},
        {"spec": {"egress": [{"to": [{}]}]}},
        {"spec": {"egress": [{"to": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
        {"spec": {"egress": [{"to": [{"ipBlock": {}}]}]}},
        {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0"}}]}]}},
        {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "nine"]}}]}]}},
    ],
    "ServiceCIDR": [
        {"spec": {"cidrs": []}},
        {"spec": {"cidrs": ["plain"]}},
        {"spec": {"cidrs": ["10.253.0.0/24", "10.252.0.0/24"]}},
        {"spec": {"cidrs": ["10.253.0.0/24", "10.252.0.0/24", "10.251.0.0/24"]}},
    ],
    "RuntimeClass": [
        {"handler": ""},
        {"handler": "UPPER"},
        {"scheduling": {"nodeSelector": {"-": "a"}}},
        {"scheduling": {"tolerations": [{"operator": "Odd", "key": "a"}]}},
    ],
    "PodDisruptionBudget": [
        {"spec": {"maxUnavailable": 1}},
        {"spec": {"minAvailable": -1}},
        {"spec": {"minAvailable": "101%"}},
        {"spec": {"minAvailable": "some"}},
        {"spec": {"selector": {"matchLabels": {"-": "a"}}}},
        {"spec": {"unhealthyPodEvictionPolicy": "Odd"}},
    ],
    "DeviceClass": [
        {"spec": {"selectors": [{}]}},
        {"spec": {"config": [{}]}},
        {"spec": {"config": [{"opaque": {"driver": "_", "parameters": {"a": "b"}}}]}},
        {"spec": {"selectors": [_EXPRESSION] * 33}},
    ],
    "ResourceClaim": [
        {"spec": {"devices": {"requests": [{"name": "one"}]}}},
        {"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "a"}}]}}},
        {"spec": {"devices": {"requests": [{"name": "UPPER", "exactly": {"deviceClassName": "_"}}]}}},
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {}}]}}},
        {
            "spec": {
                "devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "a", "allocationMode": "Odd"}}]}
            }
        },
        {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "a", "exactly": {"deviceClassName": "a", "allocationMode": "All", "count": 1}}
                    ]
                }
            }
        },
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "a", "count": -1}}]}}},
        {"spec": {"devices": {"requests": [*_DEVICES["requests"], *_DEVICES["requests"]]}}},
        {"spec": {"devices": {"constraints": [{}]}}},
        {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "a",
                            "exactly": {"deviceClassName": "a"},
                            "firstAvailable": [{"name": "b", "deviceClassName": "a"}],
                        }
                    ]
                }
            }
        },
    ],
    "ResourceClaimTemplate": [{"spec": {"spec": {"devices": {"requests": [{"name": "one"}]}}}}],
    "ResourceSlice": [
        {"spec": {"driver": ""}},
        {"spec": {"nodeName": None}},
        {"spec": {"allNodes": True}},
        {"spec": {"nodeName": "_"}},
        {"spec": {"pool": {"name": "", "resourceSliceCount": 0, "generation": -1}}},
        {"spec": {"devices": [{"name": ""}]}},
        {"spec": {"devices": [{"name": "a"}, {"name": "a"}]}},
        {"spec": {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}}},
    ],
    "PriorityClass": [
        {"value": 1_000_000_001},
        {"metadata": {"name": "system-odd"}},
        {"preemptionPolicy": "Odd"},
    ],
    "VolumeAttributesClass": [{"driverName": ""}, {"driverName": "-"}, {"parameters": None}, {"parameters": {"": "a"}}],
}
"""Changes to the examples, each of which a server must refuse."""

CHANGES: dict[str, list[Object]] = {
    "EndpointSlice": [{"addressType": "IPv6", "endpoints": []}],
    "IngressClass": [{"spec": {"controller": "tests.localpv.dev/other"}}],
    "IPAddress": [{"spec": {"parentRef": {"name": "other"}}}],
    "PriorityClass": [{"value": 8}, {"preemptionPolicy": "Never"}],
    "ResourceClaim": [{"spec": {"devices": {"requests": [{"name": "b", "exactly": {"deviceClassName": "b"}}]}}}],
    "ResourceClaimTemplate": [
        {"spec": {"spec": {"devices": {"requests": [{"name": "b", "exactly": {"deviceClassName": "b"}}]}}}}
    ],
    "ResourceQuota": [{"spec": {"scopes": ["BestEffort"], "hard": {"requests.cpu": None, "limits.memory": None}}}],
    "ResourceSlice": [{"spec": {"driver": "other.localpv.dev"}}, {"spec": {"nodeName": "other"}}],
    "RuntimeClass": [{"handler": "third"}],
    "ServiceCIDR": [{"spec": {"cidrs": ["10.253.0.0/24"]}}],
    "VolumeAttributesClass": [{"driverName": "other.localpv.dev"}, {"parameters": {"iops": "8"}}],
}
"""Changes to objects that exist, each of which a server must refuse."""


def merged(value: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    base = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), change)
    return base
