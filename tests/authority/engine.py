"""The embedded API server in this process, entered over HTTP by whom a test likes; all that it writes is noted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from tests.authority import rbac
from tests.authority.rbac import Disguise, Subject
from tests.authority.requests import (
    ACCOUNT_KIND,
    DISKS,
    LEASES,
    NAMES,
    NAMESPACE_KIND,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Kind,
    Object,
    Request,
    Row,
)

from localpv.api import crds
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.apiserver.storage import decode
from localpv.engine.apiserver.verbs import watch as watching
from localpv.engine.apiserver.verbs.create import create_object
from localpv.engine.apiserver.verbs.delete import Deletion, delete_object
from localpv.engine.apiserver.verbs.update import update_object
from localpv.engine.store.table import Change, Event
from localpv.errors import NotFound
from localpv.testing.waiting import PATIENCE_SECONDS

RBAC = "rbac.authorization.k8s.io"
ADMIN = Subject("localpv:admin", ("system:masters", "system:authenticated"))
MADE_BY_ITSELF = (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt"))
"""What the engine makes in every new namespace a moment later: nobody has asked for it, so it is not noted."""


@dataclass(frozen=True, slots=True)
class Written:
    """One change of the store."""

    prefix: str
    key: str
    change: Change
    revision: int
    before: Object | None
    after: Object


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    code: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[tuple[str, str]]:
        """The events of a watch as (type, key)."""
        lines = [json.loads(line) for line in self.body.splitlines()]
        return [(line["type"], key_of(line["object"])) for line in lines]


def key_of(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata.get("name", "")


class Engine:
    """The server, its population, and the tokens of those who ask."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server = ApiServer(Settings(data=folder / "data", port=0, durable=False))
        self.written: list[Written] = []
        self.tokens: dict[Subject, str] = {}

    async def start(self) -> None:
        # A watch tells what there is to tell and ends: nothing here waits for what may never come.
        watching.DEFAULT_TIMEOUT = (0.0, 0.0)
        await self.server.start()
        self._runner = web.ServerRunner(web.Server(self.server.handler))
        await self._runner.setup()
        socket = str(self._folder / "socket")
        await web.UnixSite(self._runner, socket).start()
        self._client = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=socket))
        self.server.store.on_event(self._note)
        served = asyncio.Event()
        self.server.kinds.on_change(served.set)
        await self.create(crds.load("localdisks"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await served.wait()
        for name in NAMESPACES:
            await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await self.create(bare(ACCOUNT_KIND, name, "robot"))
            async with asyncio.timeout(PATIENCE_SECONDS):
                for prefix, own in MADE_BY_ITSELF:
                    await self._made(prefix, f"{name}/{own}")
        for name in NODES:
            await self.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}})
        self._issue()
        await self.restore()

    async def _made(self, prefix: str, key: str) -> None:
        """Wait for what the engine makes by itself."""
        table = self.server.store.table(prefix)
        while key not in table.rows:
            await table.changed()

    async def stop(self) -> None:
        await self._client.close()
        await self._runner.cleanup()
        await self.server.stop()

    def _note(self, prefix: str, event: Event) -> None:
        if event.change is Change.ADDED and (prefix, event.key.partition("/")[2]) in MADE_BY_ITSELF:
            return
        before = None if event.before is None else decode(event.before.value)
        after = decode(event.row.value)
        self.written.append(Written(prefix, event.key, event.change, event.revision, before, after))

    def _issue(self) -> None:
        def issue(namespace: str, name: str, node: str = "") -> None:
            found = self.server.objects.get("serviceaccounts", namespace, name)
            assert found is not None
            bound = self.server.objects.get("nodes", "", node) if node else None
            token = self.server.tokens.issue(found, now=time.time(), seconds=3600, node=bound)
            self.tokens[rbac.account(namespace, name, node)] = token

        self.tokens[ADMIN] = self.server.tokens.admin_token
        for namespace in NAMESPACES:
            issue(namespace, "robot")
        issue(NAMESPACES[0], "robot", NODES[0])
        for node in (*NODES, ""):
            issue("kube-system", "localpv-agent", node)

    # -- what is there -------------------------------------------------------------------------------------------------

    def rows(self, kind: Kind) -> list[Row]:
        return [(key, decode(row.value)) for key, row in sorted(self.server.store.table(kind.prefix).rows.items())]

    def rbac_objects(self) -> list[Object]:
        plurals = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
        return [obj for plural in plurals for obj in self.server.objects.list(f"{plural}.{RBAC}")]

    @property
    def revision(self) -> int:
        return self.server.store.revision

    # -- what the administrator does -----------------------------------------------------------------------------------

    def _call(self, obj: Object) -> Call:
        kind = self.server.kinds.by_kind(obj["apiVersion"], obj["kind"])
        assert kind is not None, obj
        metadata = obj["metadata"]
        return Call(kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"])

    async def create(self, obj: Object) -> None:
        await create_object(self._call(obj), json.loads(json.dumps(obj)), storage=self.server.storage)

    async def remove(self, obj: Object) -> None:
        with contextlib.suppress(NotFound):
            await delete_object(self._call(obj), Deletion(grace_seconds=0), storage=self.server.storage)

    async def change(self, obj: Object, *, tier: str, node: str) -> None:
        """Give it another label, and a disk another node, so that it comes into sight of some and leaves that of
        others."""

        def changed(live: Object) -> Object:
            live["metadata"]["labels"] = {"tier": tier}
            if live["kind"] == DISKS.kind:
                live["spec"]["nodeName"] = node
            return live

        await update_object(self._call(obj), changed, storage=self.server.storage)

    async def restore(self) -> None:
        """Put back what a test deleted or changed, and take away what it made."""
        wanted = {(kind.prefix, key_of(obj)): obj for kind, obj in population()}
        for kind in (SECRETS, PODS, LEASES, DISKS):
            for key, obj in self.rows(kind):
                right = wanted.get((kind.prefix, key))
                if right is None or not _same(right, obj):
                    await self.remove(obj)
        await asyncio.gather(
            *(
                self.create(obj)
                for (prefix, key), obj in wanted.items()
                if key not in self.server.store.table(prefix).rows
            )
        )
        for name, obj in self.rows(NAMESPACE_KIND):
            if name in NAMESPACES and obj["spec"]["finalizers"] != ["kubernetes"]:
                await update_object(
                    replace(self._call(obj), subresource="finalize"), _only_ours, storage=self.server.storage
                )
        self.written.clear()

    # -- what is asked of it -------------------------------------------------------------------------------------------

    async def send(
        self, request: Request, who: Subject, disguise: Disguise | None, *, query: dict[str, str], body: bytes | None
    ) -> Answer:
        headers: CIMultiDict[str] = CIMultiDict({"Authorization": f"Bearer {self.tokens[who]}"})
        for name, value in disguise.headers() if disguise else ():
            headers.add(name, value)
        if body is not None:
            headers["Content-Type"] = content_type(request)
        url = f"http://engine{request.path}"
        async with self._client.request(request.method, url, params=query, data=body, headers=headers) as response:
            return Answer(response.status, await response.read())


def content_type(request: Request) -> str:
    if request.method == "PATCH":
        return "application/apply-patch+yaml" if request.apply else "application/merge-patch+json"
    protobuf = request.protobuf and request.method == "POST" and request.kind.group != DISKS.group
    return "application/vnd.kubernetes.protobuf" if protobuf else "application/json"


def bare(kind: Kind, namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def example(kind: Kind, namespace: str, name: str, *, node: str = "n1", tier: str = "") -> Object:
    """An object that the server takes."""
    obj = bare(kind, namespace, name)
    if tier:
        obj["metadata"]["labels"] = {"tier": tier}
    if kind is PODS:
        obj["spec"] = {"containers": [{"name": "main", "image": "registry.invalid/app:1"}]}
    elif kind is LEASES:
        obj["spec"] = {"holderIdentity": "me", "leaseDurationSeconds": 15}
    elif kind is DISKS:
        obj["spec"] = {
            "nodeName": node,
            "storageClassName": "fast",
            "entry": "sdb",
            "path": "/mnt/fast/sdb",
            "volumeMode": "Block",
        }
    return obj


def population() -> list[tuple[Kind, Object]]:
    """In every namespace an x and a y of each kind, with other labels here than there, and disks of two nodes."""
    tiers = ("gold", "iron", "")
    found = []
    for number, namespace in enumerate(NAMESPACES):
        for kind in (SECRETS, PODS, LEASES):
            for step, name in enumerate(NAMES[:2]):
                found.append((kind, example(kind, namespace, name, tier=tiers[(number + step) % 3])))
    for number, name in enumerate(NAMES):
        found.append((DISKS, example(DISKS, "", name, node=NODES[number % 2], tier=tiers[number])))
    return found


def _only_ours(namespace: Object) -> Object:
    namespace["spec"]["finalizers"] = ["kubernetes"]
    return namespace


def _same(wanted: Object, found: Object) -> bool:
    node = (wanted.get("spec") or {}).get("nodeName", "")
    return (
        not found["metadata"].get("deletionTimestamp")
        and (wanted["metadata"].get("labels") or {}) == (found["metadata"].get("labels") or {})
        and node == (found.get("spec") or {}).get("nodeName", "")
    )
