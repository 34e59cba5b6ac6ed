"""`localpv up` alone: a claim gets a disk, and when it goes the disk is offered again, empty."""

from __future__ import annotations

from pathlib import Path

from tests import engine_process
from tests.contract import builders, wire

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: Immediate
"""


def phases(api: wire.Api) -> dict[str, str]:
    return {one["metadata"]["uid"]: one["status"].get("phase", "") for one in api.get(VOLUMES)["items"]}


def test_a_disk_goes_from_tenant_to_tenant_and_is_empty_in_between(tmp_path: Path) -> None:
    disk, config = tmp_path / "disks" / "one", tmp_path / "config"
    disk.mkdir(parents=True)
    config.mkdir()
    (config / "storageClassMap").write_text(f"fast:\n  hostDir: {disk.parent}\n")
    (config / "class.yaml").write_text(CLASS)
    options = ["--config", str(config), "--node", "node-1"]
    with engine_process.running(data=tmp_path / "data", options=options, program="up") as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        api = wire.Api(target, target.token)
        for tenant in ("first", "second"):
            api.post(CLAIMS, builders.claim(tenant, storageClassName="fast"))
            path = f"{CLAIMS}/{tenant}"
            wire.eventually(lambda path=path: api.get(path)["status"]["phase"] == "Bound", f"{tenant} is bound")
            assert [*disk.iterdir()] == []
            (disk / tenant).write_text("secret")
            bound = set(phases(api))
            api.delete(path)
            wire.eventually(
                lambda bound=bound: [*phases(api).values()] == ["Available"] and not bound & set(phases(api)),
                "the disk is offered as a new volume",
            )
        assert [*disk.iterdir()] == []
        api.close()
