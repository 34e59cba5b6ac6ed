"""Verdicts about roles and bindings made at random: the server under test, ours or another, gives those of our RBAC.

On Kubernetes this holds our reading of the rules against the real one; on our engine it holds the whole way from stored
roles to a review against the plain model.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.authority import rbac, worlds
from tests.authority.rbac import Asked, Subject
from tests.authority.worlds import Near
from tests.contract import builders, wire
from tests.contract.wire import Api
from tests.unit.engine.apiserver.auth.fakes import Store

from localpv.engine.apiserver.auth.identity import Attributes, User
from localpv.engine.apiserver.auth.rbac import Authorizer

NAMESPACES = ("t", "t-a", "t0")
NAMES = ("x", "y", "robot")
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}
RESOURCES = [tuple(each.partition("/")[::2]) for each in worlds.RESOURCES if each[0] != "*"]
ASKED = [
    Asked(verb=verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name)
    for verb, group, (resource, subresource), namespace, name in itertools.product(
        (*worlds.VERBS[:-1], "impersonate"),
        (*worlds.API_GROUPS[:-1], "apps"),
        (*RESOURCES, ("users", ""), ("groups", "")),
        ("", *NAMESPACES),
        ("", *NAMES, "ann"),
    )
] + [Asked(verb=verb, path=path) for verb in ("get", "post") for path in ("/metrics", "/version", "/versions", "/x")]
# Groups that every cluster gives rights of its own to are left out: it is the generated ones that are asked about.
SUBJECTS = [
    Subject("ann"),
    Subject("bob", ("staff",)),
    Subject("carl", ("guests", "staff")),
    *(
        Subject(f"system:serviceaccount:{namespace}:{name}", (f"system:serviceaccounts:{namespace}",))
        for namespace in NAMESPACES
        for name in worlds.ACCOUNTS
    ),
]
CLOSE = st.sampled_from((Near.EXACT, Near.CLUSTER, Near.CLUSTER, Near.BY_NAME, *Near))
QUESTIONS = st.tuples(st.sampled_from(SUBJECTS), st.sampled_from(ASKED), CLOSE)
GRANTED = 20
"""So many of the questions of an example have a right made for them that just fits, or just does not."""


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """The same with the names of namespaces, roles and bindings that this server knows them by."""
    text = json.dumps(value)
    for old, new in names.items():
        text = text.replace(f'"{old}"', f'"{new}"').replace(f":{old}:", f":{new}:").replace(f':{old}"', f':{new}"')
    return json.loads(text)


@pytest.mark.long
@pytest.mark.timeout(600)  # when it fails, the smallest example is looked for up to 5 minutes
@pytest.mark.parametrize("turn", range(3))
def test_verdicts_about_roles_at_random_are_those_of_kubernetes(api: Api, turn: int) -> None:
    spaces = {each: api.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"] for each in NAMESPACES}

    @seed(turn)
    @settings(max_examples=10)
    @given(
        world=worlds.rbac(NAMESPACES, NAMES),
        asked=st.lists(QUESTIONS, min_size=30, max_size=30),
    )
    def compare(world: list[Any], asked: list[tuple[Subject, Asked, Near]]) -> None:
        granted = [
            obj
            for number, (who, what, near) in enumerate(asked[:GRANTED])
            if what.resource
            for obj in worlds.grant(number, near, what, who, NAMESPACES, "x")
        ]
        _compare(api, spaces, [*world, *granted], [(who, what) for who, what, _ in asked])

    compare()


def _compare(api: Api, spaces: dict[str, str], world: list[Any], asked: list[tuple[Subject, Asked]]) -> None:
    # Nothing of an example before, which the server may not have forgotten yet, may speak of this one's subjects.
    fresh = {
        name: builders.unique(name) for name in ("r1", "r2", "r3", "b0", "b1", "b2", "ann", "bob", "staff", "guests")
    }
    names = spaces | fresh | {name: builders.unique(name) for name in worlds.ACCOUNTS}
    here = _renamed(world, names)
    authorizer = Authorizer(Store(*here))
    made: list[str] = []
    try:
        for obj in sorted(here, key=lambda obj: "Binding" in obj["kind"]):
            home = obj["metadata"].get("namespace")
            scope = f"/namespaces/{home}" if home else ""
            path = f"/apis/{worlds.GROUP}/v1{scope}/{PLURALS[obj['kind']]}"
            api.post(path, obj)
            made.append(f"{path}/{obj['metadata']['name']}")
        for who, what in asked:
            subject = Subject(**_renamed({"name": who.name, "groups": who.groups}, names))
            meant = Asked(**_renamed({key: getattr(what, key) for key in Asked.__dataclass_fields__}, names))
            _ask(api, authorizer, here, subject, meant)
    finally:
        for path in made:
            api.delete(path)


def _ask(api: Api, authorizer: Authorizer, world: list[Any], who: Subject, what: Asked) -> None:
    fields = {key: getattr(what, key) for key in Asked.__dataclass_fields__}
    ours = authorizer.decide(User(who.name, tuple(who.groups)), Attributes(**fields)).allowed
    assert ours is rbac.allowed(world, who, what), (who, what, world)
    path = {"path": what.path, "verb": what.verb}
    resource = {key: value for key, value in fields.items() if key != "path"}
    spec = {"user": who.name, "groups": list(who.groups)}
    spec |= {"resourceAttributes": resource} if what.resource else {"nonResourceAttributes": path}

    def agrees() -> bool:
        # A cluster acts on new roles a moment later.
        return bool(api.post(REVIEWS, {"spec": spec})["status"]["allowed"]) is ours

    wire.eventually(agrees, f"the server says of {spec}: {ours}, with {json.dumps(world)}")
