"""Namespaces: label, phase and finalizer."""

from __future__ import annotations

from tests.unit.engine.apiserver.kinds.writes import Writes, changed

from localpv.engine.apiserver.kinds import namespace

NAMESPACES = Writes(namespace.Namespace(), "Namespace")
SHOP = {"metadata": {"name": "shop"}}


def test_new_namespace_is_active_and_held_by_the_finalizer_of_kubernetes() -> None:
    obj = NAMESPACES.stored({**SHOP, "status": {"phase": "Terminating"}})

    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert obj["status"] == {"phase": "Active"}
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}


def test_namespace_needs_a_dns_label_and_finalizers_with_a_domain() -> None:
    assert NAMESPACES.create({"metadata": {"name": "My.Shop"}}).causes == {("metadata.name", "Invalid")}
    assert NAMESPACES.create({**SHOP, "spec": {"finalizers": ["abc"]}}).causes == {("spec.finalizers", "Invalid")}
    assert NAMESPACES.create({**SHOP, "spec": {"finalizers": ["example.com/abc"]}}).obj["spec"] == {
        "finalizers": ["example.com/abc", "kubernetes"]
    }


def test_ordinary_update_changes_labels_but_neither_finalizers_nor_phase() -> None:
    old = NAMESPACES.stored(SHOP)
    new = NAMESPACES.update(
        old, spec__finalizers=["a.b/c"], status__phase="Terminating", metadata__labels={"x": "y"}
    ).obj

    assert new["spec"] == old["spec"]
    assert new["status"] == old["status"]
    assert new["metadata"]["labels"] == {"x": "y", "kubernetes.io/metadata.name": "shop"}


def test_phase_follows_the_deletion_timestamp() -> None:
    old = NAMESPACES.stored(SHOP)
    assert NAMESPACES.update_status(old, status__phase="Terminating").causes == {("status.Phase", "Invalid")}

    gone = changed(old, metadata__deletionTimestamp="2020-01-01T00:00:00Z")
    namespace.Namespace().begin_deletion(gone)
    assert gone["status"]["phase"] == "Terminating"
    assert not NAMESPACES.update_status(gone).errors
    assert NAMESPACES.update_status(gone, status__phase="Active").causes == {("status.Phase", "Invalid")}


def test_finalize_changes_finalizers_and_keeps_the_status() -> None:
    strategy, old = namespace.Namespace(), NAMESPACES.stored(SHOP)
    new = changed(old, spec__finalizers=[], status__phase="Terminating")
    strategy.prepare_for_finalize(new, old)

    assert new["spec"]["finalizers"] == []
    assert new["status"] == {"phase": "Active"}
    assert [
        error.field for error in strategy.validate_finalize(changed(old, spec__finalizers=["a.b/c", "d"]), old)
    ] == ["spec.finalizers[1]"]
