"""Something to look at for people who try localpv: three folders that stand for disks, and a set that writes to one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

from localpv import errors
from localpv.api.kinds.meta import resource_of
from localpv.api.kinds.pods import Pod
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.objects import Selection
from localpv.deploy import storage
from localpv.deploy.plan import ClassObject
from localpv.errors import ConfigurationError
from localpv.programs.manifests import Manifest

CLASS = "local-demo"
DISKS = ("alpha", "beta", "gamma")
SET = "demo"
FOLDER = "demo"
"""In the data folder: the disks of the demo, which are directories, and their configuration."""
LABELS = {"app": SET}
WRITES = 'while true; do echo "$(date +%T) $HOSTNAME was here" >>/data/log; tail -n 1 /data/log; sleep 1; done'
STOP_SECONDS = 8.0
"""How long the pods of the demo may take to go with it."""

TRY_NEXT = ("kubectl get pods,pvc,pv", f"kubectl logs -f {SET}-0", f"kubectl exec {SET}-0 -- tail /data/log")
TRY_WITHOUT_PODS = ("kubectl get pv,pvc -o wide", "kubectl get localdisks", "kubectl explain pv.spec.local")

log = logging.getLogger(__name__)


def prepare(data: Path, config: Path | None) -> tuple[list[Manifest], Path]:
    """Make the folders and a configuration that finds them; (objects to apply, folder with the configuration)."""
    if config is not None and (config / "storageClassMap").exists():
        raise ConfigurationError(
            "--demo and a storageClassMap in --config do not go together", hint="leave out --demo to use your own disks"
        )
    disks, folder = data / FOLDER / "disks", data / FOLDER / "config"
    for name in DISKS:
        (disks / name).mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "storageClassMap").write_text(f"{CLASS}:\n  hostDir: {disks}\n")
    storage_class = storage.storage_class(ClassObject(name=CLASS))
    return [Manifest(storage_class, "the demo"), Manifest(_set(), "the demo")], folder


def _set() -> Object:
    container = {
        "name": "writer",
        "image": "busybox",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", WRITES],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": CLASS,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": SET, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "serviceName": SET,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                # Not 0: such a pod is gone from the API at once, and nobody could wait for its end.
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
            "volumeClaimTemplates": [claim],
        },
    }


async def stay(client: Client) -> None:
    """A component that, when it is stopped, takes the pods of the demo with it: nothing should run on behind the back
    of somebody who only had a look. Claim and data stay, and the next start goes on with them."""
    try:
        await asyncio.Event().wait()
    finally:
        with contextlib.suppress(errors.LocalpvError, TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await _take_pods_away(client)


async def _take_pods_away(client: Client) -> None:
    sets = client.untyped(resource_of("StatefulSet", "apps"))
    await sets.patch(SET, {"spec": {"replicas": 0}}, "default")
    pods, ours = client.objects(Pod), Selection(namespace="default", labels=f"app={SET}")
    while (await pods.list(ours)).items:  # noqa: ASYNC110 (a watch for a second would be the longer story)
        await asyncio.sleep(0.1)
    log.info("the pods of the demo are gone; their data stays")
