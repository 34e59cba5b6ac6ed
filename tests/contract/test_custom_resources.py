"""Custom resource definitions: how a kind comes, in which versions and with which subresources, and how it goes."""

from __future__ import annotations

from tests.contract import builders, custom, wire
from tests.contract.custom import DEFINITIONS, Kind
from tests.contract.spaces import Space
from tests.contract.wire import Api

PLAN = custom.Plan()


def test_definition_becomes_established_and_is_served(api: Api, space: Space) -> None:
    kind = Kind()
    made = custom.define(api, kind.definition())
    assert custom.condition(made, "NamesAccepted") == "True"
    assert made["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["spec"]["conversion"] == {"strategy": "None"}
    created = api.post(kind.path(space), kind.object(spec={"size": 3}), expect=201)
    assert created["metadata"]["generation"] == 1
    assert created["spec"] == {"size": 3}
    listing = api.get(kind.path(space))
    assert (listing["kind"], listing["apiVersion"]) == ("WidgetList", f"{kind.group}/v1")
    assert [item["kind"] for item in listing["items"]] == ["Widget"]


def test_kind_appears_in_discovery(api: Api) -> None:
    kind = Kind(cluster_scoped=True)
    definition = kind.definition(subresources={"status": {}})
    definition["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    custom.define(api, definition)
    wire.eventually(lambda: api.send("GET", f"/apis/{kind.group}/v1").code == 200, "the group is discovered")
    listed = {entry["name"]: entry for entry in api.get(f"/apis/{kind.group}/v1")["resources"]}
    entry = listed["widgets"]
    assert (entry["kind"], entry["namespaced"], entry["singularName"]) == ("Widget", False, "widget")
    assert (entry["shortNames"], entry["categories"]) == (["wd"], ["all"])
    assert set(listed) == {"widgets", "widgets/status"}
    group = api.get(f"/apis/{kind.group}")
    assert group["preferredVersion"]["version"] == "v1"


def test_name_must_be_plural_and_group(api: Api) -> None:
    definition = Kind().definition()
    definition["metadata"]["name"] = "wrong.localpv.dev"
    status = api.post(DEFINITIONS, definition, expect=422)
    assert ("FieldValueInvalid", "metadata.name") in wire.causes(status)


def test_exactly_one_version_is_stored(api: Api) -> None:
    versions = [custom.a_version("v1"), custom.a_version("v2")]
    status = api.post(DEFINITIONS, Kind().definition(versions=versions), expect=422)
    assert any(field == "spec.versions" for _, field in wire.causes(status))


STATUS = PLAN.kind(custom.with_spec({"size": {"type": "integer"}}), subresources={"status": {}})


def test_status_subresource(api: Api, space: Space) -> None:
    kind = STATUS
    made = api.post(kind.path(space), kind.object(spec={"size": 1}, status={"phase": "x"}))
    assert "status" not in made
    updated = api.put(kind.path(space, "one", "status"), made | {"spec": {"size": 9}, "status": {"phase": "Ready"}})
    assert (updated["spec"], updated["status"]) == ({"size": 1}, {"phase": "Ready"})
    assert updated["metadata"]["generation"] == 1
    changed = api.merge(kind.path(space, "one"), {"spec": {"size": 2}, "status": {"phase": "Lost"}})
    assert (changed["spec"], changed["status"]) == ({"size": 2}, {"phase": "Ready"})
    assert changed["metadata"]["generation"] == 2
    labelled = api.merge(kind.path(space, "one"), {"metadata": {"labels": {"a": "1"}}})
    assert labelled["metadata"]["generation"] == 2


NO_STATUS = PLAN.kind(custom.with_spec({"size": {"type": "integer"}}))


def test_without_status_subresource_every_change_counts(api: Api, space: Space) -> None:
    kind = NO_STATUS
    made = api.post(kind.path(space), kind.object(spec={"size": 1}, status={"phase": "x"}))
    assert made["status"] == {"phase": "x"}
    changed = api.merge(kind.path(space, "one"), {"status": {"phase": "y"}})
    assert changed["metadata"]["generation"] == 2
    assert api.get(kind.path(space, "one", "status"), expect=404)["reason"] == "NotFound"


SCALED = PLAN.kind(
    custom.with_spec({"replicas": {"type": "integer"}}),
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
)


def test_scale_subresource(api: Api, space: Space) -> None:
    kind = SCALED
    api.post(kind.path(space), kind.object(spec={"replicas": 2}))
    api.merge(kind.path(space, "one", "status"), {"status": {"replicas": 1, "selector": "app=x"}})
    scale = api.get(kind.path(space, "one", "scale"))
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 2})
    assert scale["status"] == {"replicas": 1, "selector": "app=x"}
    scale["spec"]["replicas"] = 4
    api.put(kind.path(space, "one", "scale"), scale)
    assert api.get(kind.path(space, "one"))["spec"] == {"replicas": 4}


TWO_VERSIONS = PLAN.kind(versions=[custom.a_version("v1"), custom.a_version("v1beta1", storage=False)])


def test_object_is_served_in_every_version(api: Api, space: Space) -> None:
    kind = TWO_VERSIONS
    api.post(kind.path(space), kind.object(spec={"size": 1}))
    wire.eventually(
        lambda: api.send("GET", kind.path(space, "one", version="v1beta1")).code == 200, "v1beta1 is served"
    )
    old = api.get(kind.path(space, "one", version="v1beta1"))
    assert (old["apiVersion"], old["spec"]) == (f"{kind.group}/v1beta1", {"size": 1})


DEPRECATED = PLAN.kind(deprecated=True)


def test_deprecated_version_warns(api: Api, space: Space) -> None:
    kind = DEPRECATED
    answer = api.send("GET", kind.path(space))
    assert answer.warnings == f'299 - "{kind.group}/v1 Widget is deprecated"'


HALF_SERVED = PLAN.kind(versions=[custom.a_version("v1"), custom.a_version("v2", storage=False) | {"served": False}])


def test_version_that_is_not_served_is_not_found(api: Api, space: Space) -> None:
    kind = HALF_SERVED
    assert api.send("GET", kind.path(space, version="v2")).code == 404


def test_scope_and_names_stay(api: Api) -> None:
    kind = Kind()
    made = custom.define(api, kind.definition())
    made["spec"]["scope"] = "Cluster"
    status = api.put(f"{DEFINITIONS}/{kind.name}", made, expect=422)
    assert ("FieldValueInvalid", "spec.scope") in wire.causes(status)


NOT_STRATEGIC = PLAN.kind()


def test_strategic_patch_is_not_for_custom_kinds(api: Api, space: Space) -> None:
    kind = NOT_STRATEGIC
    api.post(kind.path(space), kind.object())
    assert api.strategic(kind.path(space, "one"), {}, expect=415)["reason"] == "UnsupportedMediaType"


LOCKED = PLAN.kind()


def test_update_of_a_custom_object_needs_a_version(api: Api, space: Space) -> None:
    kind = LOCKED
    api.post(kind.path(space), kind.object())
    status = api.put(kind.path(space, "one"), kind.object(spec={"size": 1}), expect=422)
    assert set(wire.causes(status)) == {("FieldValueInvalid", "metadata.resourceVersion")}
    assert "must be specified for an update" in status["message"]


DOOMED = PLAN.kind()


def test_deleting_the_definition_deletes_the_objects(api: Api, space: Space) -> None:
    kind = DOOMED
    definition = f"{DEFINITIONS}/{kind.name}"
    made = api.post(kind.path(space), kind.object())
    # The kind is served until its definition is gone: it must not go before the watch has told what it has to tell.
    held = [*api.get(definition)["metadata"].get("finalizers", []), "contract.localpv.dev/wait"]
    api.merge(definition, {"metadata": {"finalizers": held}})
    with api.watch(kind.path(space), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        api.delete(definition)
        assert watch.take(1) == [("DELETED", "one")]
    wire.eventually(
        lambda: api.get(definition)["metadata"]["finalizers"] == ["contract.localpv.dev/wait"], "only the test holds it"
    )
    api.merge(definition, {"metadata": {"finalizers": None}})
    wire.eventually(lambda: api.gone(definition), "the definition is gone")
    wire.eventually(lambda: api.gone(kind.path(space)), "the kind is no longer served")


def test_two_definitions_cannot_claim_one_kind(api: Api) -> None:
    kind = Kind()
    custom.define(api, kind.definition())
    rival = Kind(group=kind.group, plural="widgetries")
    api.post(DEFINITIONS, rival.definition())
    path = f"{DEFINITIONS}/{rival.name}"
    wire.eventually(lambda: custom.condition(api.get(path), "NamesAccepted") == "False", "the names are refused")
    assert custom.condition(api.get(path), "Established") == "False"


def test_cluster_scoped_kind(api: Api) -> None:
    kind = Kind(cluster_scoped=True)
    custom.define(api, kind.definition())
    path = f"/apis/{kind.group}/v1/widgets"
    made = api.post(path, kind.object(builders.unique("w")))
    assert "namespace" not in made["metadata"]
