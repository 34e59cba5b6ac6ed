"""What tells the Prometheus operator where the metrics are."""

from __future__ import annotations

from localpv.api import well_known
from localpv.api.objects import Object
from localpv.deploy import pods
from localpv.deploy.plan import Plan

NAME = "localpv"
INTERVAL = "10s"
"""How often the pods are asked, as with the classic chart."""


def pod_monitor(plan: Plan) -> Object:
    """All pods of localpv, whichever program they run."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": NAME, "namespace": plan.namespace},
        "spec": {
            "namespaceSelector": {"matchNames": [plan.namespace]},
            "selector": {"matchLabels": {well_known.APP_NAME: NAME}},
            "podMetricsEndpoints": [{"port": pods.PORT_NAME, "interval": INTERVAL}],
        },
    }
