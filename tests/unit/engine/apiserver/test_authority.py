"""Whatever is asked, by whom and how: the verdict is that of RBAC, and what is shown or touched stays within it.

Roles, bindings, subjects and requests are made at random. A small model of RBAC, of the rule for agents and of what
each request is about (`tests/authority`) says what must happen; the server must do that and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.authority import engine, rbac, worlds
from tests.authority.engine import Answer, Engine, Written
from tests.authority.rbac import Disguise, Subject
from tests.authority.requests import (
    DISKS,
    GOOD_FINALIZERS,
    METHODS,
    NAMESPACE_KIND,
    NAMESPACES,
    NODE_KIND,
    NODES,
    PODS,
    PREFIXED_NAMES,
    USUAL_KINDS,
    Kind,
    Object,
    Request,
    Row,
    Token,
    requests,
)
from tests.authority.worlds import Near

from localpv.api.protobuf import messages as protobuf
from localpv.engine.apiserver.verbs import watch as watching
from localpv.engine.store.table import Change

MANY = ("list", "watch", "deletecollection")
AGENTS = tuple(rbac.account("kube-system", "localpv-agent", node) for node in (*NODES, ""))
WHO = (
    *(rbac.account(namespace, "robot") for namespace in NAMESPACES),
    rbac.account(NAMESPACES[0], "robot", NODES[0]),
    *AGENTS,
)
DISGUISES = st.builds(
    Disguise,
    st.sampled_from((*worlds.USERS, "system:serviceaccount:t:robot", "system:serviceaccount:t-a:other")),
    st.sampled_from(((), ("staff",), ("staff", "guests"), ("localpv:agents",), ("system:masters",))),
    st.sampled_from(({}, {"team": "blue"})),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A request, by whom, in whose name."""

    request: Request
    who: Subject
    disguise: Disguise | None
    near: Near | None
    """A right that comes close to what the request needs, or is just that."""

    def grants(self, number: int) -> list[Object]:
        asked, who = self.request.asked(), self.who
        found: list[Object] = []
        if self.disguise is not None:
            if self.near is not Near.OTHER_VERB:
                # Half of those who take on a name may do so.
                questions = rbac.questions(self.disguise)
                for step, each in enumerate(questions):
                    near = Near.EXACT if each.namespace else Near.CLUSTER
                    found += worlds.grant(100 + 10 * number + step, near, each, who, NAMESPACES, "")
            who = Subject(self.disguise.user)
        if self.near is not None:
            name = self.request.selected_name or self.request.body_name
            found += worlds.grant(number, self.near, asked, who, NAMESPACES, name)
        return found


NEAR = st.sampled_from((None, *Near, Near.EXACT, Near.EXACT, Near.CLUSTER, Near.CLUSTER, Near.BY_NAME, Near.BY_NAME))


def cases(
    *forms: str, kinds: tuple[Kind, ...] = USUAL_KINDS, who: tuple[Subject, ...] = WHO
) -> st.SearchStrategy[Case]:
    return st.builds(Case, requests(forms, kinds), st.sampled_from(who), st.none(), NEAR)


FOCUS = {
    "lists": cases("list"),
    "watches": cases("watch", "watch", "old watch"),
    "deletions": cases("deletecollection", "deletecollection", "delete"),
    "creations": cases("create", "update", "patch"),
    "single objects": cases("get", "head", "update", "patch"),
    "namespaces": cases("update", "update", "patch", "get", "old watch", kinds=(NAMESPACE_KIND,)),
    "agents": cases(*METHODS, kinds=(DISKS, DISKS, DISKS, NODE_KIND), who=AGENTS),
    "impersonation": st.builds(Case, requests(tuple(METHODS)), st.sampled_from((*WHO, engine.ADMIN)), DISGUISES, NEAR),
}
CHANGES = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(("gold", "iron", "lead")), st.sampled_from(NODES)), max_size=4
)


class Verdict(Enum):
    REFUSED = "refused before anything is looked at: 403"
    NOT_THIS_OBJECT = "refused for the object that it meets, nothing is shown or touched"
    ALLOWED = "never 403"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, asyncio.Runner]]:
    usual = watching.DEFAULT_TIMEOUT
    with asyncio.Runner() as runner:
        started = Engine(tmp_path_factory.mktemp("engine"))
        runner.run(started.start())
        try:
            yield started, runner
        finally:
            runner.run(started.stop())
            watching.DEFAULT_TIMEOUT = usual


TURNS = 6
"""Each begins with a seed of its own: hypothesis repeats itself within a run, and hardly at all from run to run."""


@pytest.mark.timeout(600)  # a second as a rule; but when it fails, the smallest example is looked for up to 5 minutes
@pytest.mark.parametrize("turn", range(TURNS))
@pytest.mark.parametrize("focus", FOCUS)
def test_nobody_sees_or_touches_what_they_may_not(
    running: tuple[Engine, asyncio.Runner], focus: str, turn: int
) -> None:
    started, runner = running

    @seed(turn)
    @settings(max_examples=6)
    @given(
        world=worlds.rbac(NAMESPACES, PREFIXED_NAMES, ("edit", "view", "localpv-agent")),
        changes=CHANGES,
        drawn=st.lists(FOCUS[focus], min_size=10, max_size=14),
    )
    def play(world: list[Object], changes: list[tuple[int, str, str]], drawn: list[Case]) -> None:
        granted = [obj for number, case in enumerate(drawn) for obj in case.grants(number)]
        runner.run(_play(started, [*world, *granted], changes, drawn))

    play()


async def _play(started: Engine, world: list[Object], changes: list[tuple[int, str, str]], drawn: list[Case]) -> None:
    try:
        await asyncio.gather(*(started.create(obj) for obj in world))
        before = started.revision
        present = [obj for _, obj in engine.population()]
        for number, tier, node in changes:
            await started.change(present[number % len(present)], tier=tier, node=node)
        for case in drawn:
            await _Trial(started, case, before).run()
    finally:
        await asyncio.gather(*(started.remove(obj) for obj in world))
        await started.restore()


class _Trial:
    """One request, from what the model expects of it to what the server did."""

    def __init__(self, started: Engine, case: Case, before: int) -> None:
        self.engine = started
        self.request = case.request
        self.case = case
        self.before = before
        self.rules = started.rbac_objects()
        self.rows = started.rows(case.request.kind)
        self.start = ""
        """Where the token says that the list begins; None: the token is none."""
        self.token_is_good = True

    async def run(self) -> None:
        request, case = self.request, self.case
        who: Subject | None = case.who
        if case.disguise is not None:
            who = rbac.disguised(self.rules, case.who, case.disguise)
        verdict = Verdict.REFUSED if who is None else self.judge(who)
        query = request.query() | await self._token()
        if request.verb == "watch" and request.resume and not request.initial:
            query["resourceVersion"] = str(self.before)
        body = self._body()
        history = len(self.engine.written)
        answer = await self.engine.send(request, case.who, case.disguise, query=query, body=body)
        touched = self.engine.written[history:]
        try:
            self._check(answer, touched, verdict, who)
        except AssertionError as error:
            what = f"{request.method} {request.path} {query} as {who}: {answer.code} {answer.body[:600]!r}"
            raise AssertionError(f"{error}\n{what}\nwanted {verdict}, touched {touched}") from None

    # -- what must happen ----------------------------------------------------------------------------------------------

    def judge(self, who: Subject) -> Verdict:
        request, asked = self.request, self.request.asked()
        if "system:masters" in who.groups:
            return Verdict.ALLOWED
        if not rbac.allowed(self.rules, who, asked):
            return Verdict.REFUSED
        there = next((obj for key, obj in self.rows if key == self._key(request.name)), None)
        if self._makes(there) and not rbac.allowed(self.rules, who, replace(asked, verb="create")):
            return Verdict.NOT_THIS_OBJECT
        return self._judge_agent(who, there) if rbac.is_agent(self.rules, who) else Verdict.ALLOWED

    def _makes(self, there: Object | None) -> bool:
        """Whether it is an update that creates what is not there."""
        request = self.request
        if there is not None or request.subresource or (request.kind.namespaced and not request.namespace):
            return False
        return request.kind.made_by_put if request.verb == "update" else request.verb == "patch" and request.apply

    def _judge_agent(self, who: Subject, there: Object | None) -> Verdict:
        request, verb = self.request, self.request.verb
        if request.kind is NODE_KIND:
            selected = [t.value for t in request.fields if t.equal and t.field == "metadata.name"]
            named = [request.name, *(selected if verb in MANY else ())]
            return Verdict.ALLOWED if who.node and who.node in named else Verdict.REFUSED
        if request.kind is not DISKS:
            return Verdict.ALLOWED
        if not who.node:
            return Verdict.REFUSED
        if verb in MANY:
            return Verdict.ALLOWED if request.requires_node(who.node) else Verdict.REFUSED
        nodes = {there["spec"]["nodeName"]} if there is not None and verb != "create" else set()
        if not request.subresource and (verb in ("create", "update") or (verb == "patch" and request.apply)):
            nodes.add(request.body_node)
        return Verdict.ALLOWED if nodes <= {who.node} else Verdict.NOT_THIS_OBJECT

    # -- what did happen -----------------------------------------------------------------------------------------------

    def _check(self, answer: Answer, touched: list[Written], verdict: Verdict, who: Subject | None) -> None:
        assert answer.code < 500, "the server met an error"
        assert (answer.code == 403) is (verdict is Verdict.REFUSED) or verdict is Verdict.NOT_THIS_OBJECT, "verdict"
        if verdict is Verdict.NOT_THIS_OBJECT:
            assert answer.code >= 400, "an object that is none of theirs was answered"
        if answer.code >= 400:
            assert not touched, "a refused request changed something"
            return
        assert who is not None
        match self.request.verb:
            case "list" if self.request.method == "GET":
                self._check_list(answer, who)
            case "watch":
                self._check_watch(answer, who)
            case "deletecollection":
                self._check_deleted(answer, touched, who)
            case _:
                self._check_one(touched)
        if self.request.verb in ("get", "list", "watch"):
            assert not touched, "a read changed something"
        if self.request.verb in MANY:
            assert self.request.is_readable and self.token_is_good, "it should have been a bad request"

    def _check_list(self, answer: Answer, who: Subject) -> None:
        items = answer.json["items"]
        found = [engine.key_of(item) for item in items]
        assert found == [key for key, _ in self.request.page(self.rows, self.start)], "the list is another one"
        self._one_by_one(items, who)

    def _check_watch(self, answer: Answer, who: Subject) -> None:
        request = self.request
        told = [event for event in answer.events() if event[0] != "BOOKMARK"]
        if request.resume and not request.initial:
            assert told == self._expected_events(), "other changes were told"
        else:
            wanted = [("ADDED", key) for key, obj in self.rows if request.selects(key, obj)]
            assert told == wanted, "another state was told"
        self._one_by_one([json.loads(line)["object"] for line in answer.body.splitlines()], who)

    def _expected_events(self) -> list[tuple[str, str]]:
        told: list[tuple[str, str]] = []
        for change in self.engine.written:
            if change.prefix != self.request.kind.prefix or change.revision <= self.before:
                continue
            was = change.before is not None and self.request.selects(change.key, change.before)
            remains = change.change is not Change.DELETED and self.request.selects(change.key, change.after)
            if was or remains:
                kind = "MODIFIED" if was and remains else "ADDED" if remains else "DELETED"
                told.append((kind, change.key))
        return told

    def _check_deleted(self, answer: Answer, touched: list[Written], who: Subject) -> None:
        assert {change.prefix for change in touched} <= {self.request.kind.prefix}, "another resource was touched"
        wanted = self.request.page(self.rows, self.start)
        assert {change.key for change in touched} == {key for key, _ in wanted}, "other objects were deleted"
        self._one_by_one([obj for _, obj in wanted], who)
        assert {engine.key_of(item) for item in answer.json["items"]} == {key for key, _ in wanted}

    def _check_one(self, touched: list[Written]) -> None:
        request = self.request
        key = self._key(request.name or request.body_name)
        assert {(change.prefix, change.key) for change in touched} <= {(request.kind.prefix, key)}
        if request.subresource == "finalize":
            assert set(request.finalizers) <= set(GOOD_FINALIZERS), "finalizers that nobody checked"
            assert all(change.before and change.after["status"] == change.before["status"] for change in touched)

    def _one_by_one(self, objects: list[Object], who: Subject) -> None:
        """What came with others could also have been had alone."""
        if "system:masters" in who.groups:
            return
        request, asked = self.request, self.request.asked()
        agent = request.kind is DISKS and rbac.is_agent(self.rules, who)
        for obj in objects:
            metadata = obj["metadata"]
            if "name" not in metadata:
                continue  # a bookmark
            home = metadata["name"] if request.kind is NAMESPACE_KIND else metadata.get("namespace", "")
            alone = replace(asked, namespace=home, name=metadata["name"])
            assert rbac.allowed(self.rules, who, alone), f"{engine.key_of(obj)} is none of theirs"
            assert not agent or obj["spec"]["nodeName"] == who.node, f"{engine.key_of(obj)} is of another node"

    # -- what is sent --------------------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return f"{self.request.namespace}/{name}" if self.request.kind.namespaced else name

    async def _token(self) -> dict[str, str]:
        request, token = self.request, self.request.token
        if token is None or request.verb not in ("list", "deletecollection"):
            return {}
        if isinstance(token, Token):
            parts = token.start.removeprefix("/").split("/")
            self.token_is_good = token.form.endswith("/v1") and not {"", ".", ".."} & set(parts)
            self.start = token.start.removeprefix("/")
            return {"continue": token.text(self.engine.revision)}
        namespace = ("", *NAMESPACES)[token] if request.kind.namespaced else ""
        other = Request(kind=request.kind, method="GET", namespace=namespace, limit=1)
        answer = await self.engine.send(other, engine.ADMIN, None, query=other.query(), body=None)
        text = answer.json["metadata"].get("continue", "")
        if not text:
            return {}
        self.start = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["start"]
        return {"continue": text}

    def _body(self) -> bytes | None:
        request = self.request
        name, kind = request.name or request.body_name, request.kind
        if request.method not in ("POST", "PUT", "PATCH"):
            return None
        if request.method == "PATCH" and not request.apply:
            return b'{"metadata":{"annotations":{"touched":"yes"}}}'
        if request.subresource == "binding":
            target = {"kind": "Node", "name": "n1"}
            return json.dumps(
                {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            ).encode()
        if request.subresource == "eviction":
            return json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}).encode()
        if request.subresource == "token":
            return json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode()
        home = request.namespace if kind.namespaced else ""
        body = engine.example(kind, home, name, node=request.body_node)
        if request.method == "PUT":
            there: Row | None = next((row for row in self.rows if row[0] == self._key(name)), None)
            if there is not None:
                body = {**there[1], **body, "metadata": {**there[1]["metadata"], "annotations": {"touched": "yes"}}}
                if kind is PODS:
                    body["spec"] = there[1]["spec"]
                if request.finalizers:
                    body |= {"spec": {"finalizers": list(request.finalizers)}, "status": {"phase": "Terminating"}}
        if engine.content_type(request) == "application/vnd.kubernetes.protobuf":
            return protobuf.encode(body)
        return json.dumps(body).encode()
