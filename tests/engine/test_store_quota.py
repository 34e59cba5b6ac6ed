"""How much may be stored: one object, one namespace, all; and that whoever fills it stops nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import engine_process
from tests.contract import builders, wire
from tests.engine.test_bounds import _tenant

MOST = 16 << 20
OPTIONS = ("--max-store-bytes", str(MOST))
PIECE = 500_000
MAX_OBJECT_BYTES = 3 << 19


def _target(engine: engine_process.Engine) -> wire.Target:
    return wire.read_kubeconfig(engine.kubeconfig, controllers=True)


@pytest.fixture
def target() -> Iterator[wire.Target]:
    with engine_process.running(options=OPTIONS) as engine:
        yield _target(engine)


@pytest.fixture
def admin(target: wire.Target) -> Iterator[wire.Api]:
    client = wire.Api(target, target.token)
    yield client
    client.close()


def _fill(client: wire.Api, path: str, size: int = PIECE) -> tuple[int, Any]:
    """(how many there was room for, the answer to the first that there was none for)."""
    for number in range(2 * MOST // size):
        body = builders.config_map(f"fill-{size}-{number}", data={"a": "x" * size})
        answer = client.send("POST", path, body)
        if answer.code != 201:
            return number, answer
    raise AssertionError("nothing stopped it")


def test_one_tenant_fills_its_half_and_stops_nobody(admin: wire.Api, target: wire.Target) -> None:
    space, token = _tenant(admin)
    neighbour_space, neighbour_token = _tenant(admin)
    path, there = (f"/api/v1/namespaces/{name}/configmaps" for name in (space, neighbour_space))
    tenant, neighbour = wire.Api(target, token), wire.Api(target, neighbour_token)
    made, refused = _fill(tenant, path)
    assert made == MOST // 2 // (PIECE + 2000)
    status = refused.body
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert "retry-after" not in refused.headers, "clients would wait for it by themselves"
    assert f'configmaps "fill-{PIECE}-{made}" cannot be stored: exceeded quota: namespace {space}' in status["message"]
    assert "--max-store-bytes" in status["message"]
    assert f"used: {_taken(admin, space)}," in status["message"], "the sum is that of the objects"
    _fill(tenant, path, 2000)

    # What does not grow, and what shrinks or goes, always works; what grows does not.
    one = f"{path}/fill-{PIECE}-0"
    assert tenant.send("PATCH", one, {"data": {"a": "y" * PIECE}}, content_type=wire.MERGE_PATCH).code == 200
    grown = {"data": {"b": "x" * 3000}}
    assert tenant.send("PATCH", one, grown, content_type=wire.MERGE_PATCH).code == 429
    assert "b" not in tenant.get(one)["data"]
    # A controller that creates for the tenant is refused too; changes of the administrator are not.
    assert admin.send("POST", path, builders.config_map("more", data={"a": "x" * 3000})).code == 429
    admin.merge(one, grown)

    # Others are served.
    assert neighbour.send("POST", there, builders.config_map("mine", data={"a": "x" * PIECE})).code == 201
    node = admin.post("/api/v1/nodes", builders.node())["metadata"]["name"]
    conditions = [{"type": "Ready", "status": "True", "message": "m" * 5000}]
    admin.merge(f"/api/v1/nodes/{node}/status", {"status": {"conditions": conditions}})
    assert _fill(neighbour, there)[1].code == 429
    admin.merge(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [{**conditions[0], "status": "False"}]}})
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    admin.post(leases, builders.lease(node))

    # Deleting makes room, one by one and as a whole, and with finalizers that the deletion itself puts in.
    answer = tenant.send("DELETE", one, {"propagationPolicy": "Foreground"})
    assert answer.code == 200, answer.body
    assert wire.eventually(lambda: tenant.gone(one), "it is gone")
    assert tenant.send("POST", path, builders.config_map("again", data={"a": "x" * (PIECE - 5000)})).code == 201
    admin.delete(f"/api/v1/namespaces/{space}")
    assert wire.eventually(lambda: admin.gone(f"/api/v1/namespaces/{space}"), "the namespace is gone")
    assert neighbour.send("POST", there, builders.config_map("small", data={"a": "x" * PIECE})).code == 201
    tenant.close()
    neighbour.close()


def test_a_pod_can_be_evicted_from_a_full_namespace(admin: wire.Api, target: wire.Target) -> None:
    space, token = _tenant(admin)
    tenant = wire.Api(target, token)
    pods, path = f"/api/v1/namespaces/{space}/pods", f"/api/v1/namespaces/{space}/configmaps"
    for name in ("one", "two"):
        tenant.post(pods, builders.pod(name) | {"metadata": {"name": name, "finalizers": ["a.b/c"]}})
    for size in (PIECE, 50_000, 2000, 1):
        _fill(tenant, path, size)
    for name, client in (("one", tenant), ("two", admin)):
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        answer = client.send("POST", f"{pods}/{name}/eviction", eviction)
        assert answer.code == 201, answer.body
        ending = tenant.get(f"{pods}/{name}")
        assert ending["metadata"]["deletionTimestamp"]
        assert [each["type"] for each in ending["status"]["conditions"]] == ["DisruptionTarget"]
    tenant.close()


def test_writes_that_come_at_once_do_not_slip_through(admin: wire.Api, target: wire.Target) -> None:
    space, token = _tenant(admin)
    path = f"/api/v1/namespaces/{space}/configmaps"
    codes: list[int] = []

    def flood(number: int) -> None:
        client = wire.Api(target, token)
        for each in range(6):
            body = builders.config_map(f"f-{number}-{each}", data={"a": "x" * PIECE})
            codes.append(client.send("POST", path, body).code)
        client.close()

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    room = MOST // 2 // (PIECE + 2000)
    assert (codes.count(201), codes.count(429)) == (room, 48 - room)
    assert _taken(admin, space) <= MOST // 2


def _taken(admin: wire.Api, space: str) -> int:
    """The bytes of all objects of a namespace as the store counts them: compact JSON, without digits of revisions."""
    total = 0
    for plural in ("configmaps", "serviceaccounts"):
        for obj in admin.get(f"/api/v1/namespaces/{space}/{plural}")["items"]:
            whole = {"apiVersion": "v1", "kind": "ConfigMap" if plural == "configmaps" else "ServiceAccount", **obj}
            total += _size(whole)
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings"
    for obj in admin.get(bindings)["items"]:
        whole = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", **obj}
        total += _size(whole)
    return total


def _size(obj: Any) -> int:
    text = msgspec.json.encode(obj)
    return 1024 + 320 * text.count(b'"uid":"') + len(text) - len(obj["metadata"]["resourceVersion"])


def test_all_tenants_together_leave_the_reserve_and_it_is_so_after_a_restart(tmp_path: Path) -> None:
    with engine_process.running(options=OPTIONS, data=tmp_path / "data") as engine:
        admin = wire.Api(_target(engine), _target(engine).token)
        spaces = [_tenant(admin)[0] for _ in range(3)]
        made = [_fill(admin, f"/api/v1/namespaces/{space}/configmaps")[0] for space in spaces]
        room = MOST * 7 // 8
        assert room // (PIECE + 2000) - sum(made) in (0, 1), "what the engine keeps for itself is little"
        refused = _fill(admin, f"/api/v1/namespaces/{spaces[2]}/configmaps", 4000)[1]
        said = refused.body["message"].partition("exceeded quota: ")[2]
        assert said.startswith("all objects may have")
        assert room - 6000 < _used(refused.body["message"]) <= room
        admin.close()
    with engine_process.running(options=OPTIONS, data=tmp_path / "data") as engine:
        admin = wire.Api(_target(engine), _target(engine).token)
        path = f"/api/v1/namespaces/{spaces[2]}/configmaps"
        again = admin.send(
            "POST", path, builders.config_map(refused.body["message"].split('"')[1], data={"a": "x" * 4000})
        )
        assert again.code == 429
        assert _used(again.body["message"]) == pytest.approx(_used(refused.body["message"]), abs=100)
        admin.post("/api/v1/nodes", builders.node())
        admin.close()


def _used(message: str) -> int:
    return int(message.partition("used: ")[2].partition(",")[0])


def test_an_object_that_patches_would_make_too_large_stays_as_it_was(admin: wire.Api) -> None:
    group = "example.com"
    name = builders.unique("bigs")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": name, "kind": "Big"}, "versions": [version]},
    }
    admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    path = f"/apis/{group}/v1/{name}"
    big = {"apiVersion": f"{group}/v1", "kind": "Big", "metadata": {"name": "big"}, "spec": {}}
    wire.eventually(lambda: admin.send("POST", path, big).code == 201, "the kind is served")
    one = f"{path}/big"
    for number in range(40):
        answer = admin.send("PATCH", one, {"spec": {f"f{number}": "x" * 100_000}}, content_type=wire.MERGE_PATCH)
        if answer.code != 200:
            break
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert str(MAX_OBJECT_BYTES) in answer.body["message"]
    now = admin.get(one)
    assert list(now["spec"]) == [f"f{each}" for each in range(number)] and number == 15
    assert admin.send("POST", path, {**big, "metadata": {"name": "b"}, "spec": {"a": "x" * (2 << 20)}}).code == 413
    # It can still be changed, as long as it does not grow, and deleted.
    admin.merge(one, {"spec": {"f0": "y" * 100_000}})
    assert admin.send("DELETE", one, {"propagationPolicy": "Foreground"}).code == 200
    assert wire.eventually(lambda: admin.gone(one), "it is gone")
