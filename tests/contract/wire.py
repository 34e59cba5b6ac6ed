"""The smallest client that can show what goes over the wire: plain HTTP and JSON, nothing hidden, nothing retried."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import yaml

from localpv.testing.waiting import PATIENCE_SECONDS

T = TypeVar("T")


ANSWER_SECONDS = 120.0
"""How long one answer may take, less than a test may: some are much work, and the machine may have other work too."""

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL_OBJECT = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the server under test is and how to enter it as an administrator."""

    host: str
    port: int
    token: str | None
    tls: ssl.SSLContext
    kubeconfig: Path
    controllers: bool
    """Whether something collects garbage and empties namespaces."""

    etcd_url: str | None = None
    """Known when the server under test is one that the tests started themselves on etcd."""

    log: Path | None = None
    """The log of the server, when the tests started it; its end is shown with a test that failed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response: the code, the headers with lower-case names, and the body as sent and as JSON."""

    code: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def warnings(self) -> str:
        return self.headers.get("warning", "")


def read_kubeconfig(path: Path, *, controllers: bool = False, etcd_url: str | None = None) -> Target:
    """Take server, authority and credentials of the current context."""
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    if data := cluster.get("certificate-authority-data"):
        tls = ssl.create_default_context(cadata=base64.b64decode(data).decode())
    else:
        tls = ssl.create_default_context(cafile=str(path.parent / cluster["certificate-authority"]))
    if certificate := user.get("client-certificate"):
        tls.load_cert_chain(path.parent / certificate, path.parent / user["client-key"])
    server = urllib.parse.urlsplit(cluster["server"])
    return Target(
        host=server.hostname or "127.0.0.1",
        port=server.port or 443,
        token=user.get("token"),
        tls=tls,
        kubeconfig=path,
        controllers=controllers,
        etcd_url=etcd_url,
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


NOT_BEGUN = b"storage is (re)initializing"


@dataclass(slots=True)
class Api:
    """A client with one kept-alive connection, which remembers what it created."""

    target: Target
    token: str | None
    created: list[str] = field(default_factory=list)
    """Paths of the objects that came into being through this client, oldest first."""

    address: str | None = None
    """Where it comes from, if not from where the machine chooses: servers count failed logins by it."""

    _connection: http.client.HTTPSConnection | None = None
    _others: list[Api] = field(default_factory=list)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Answer:
        """Send one request; the body is JSON unless it is bytes already.

        It is sent again while the server says that it has not begun with a kind yet, as kube-apiserver does for a
        moment after a definition has changed, and asks for that.
        """
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = _headers(self.token, accept) | (dict(headers) if headers else {})
        if payload is not None:
            sent.setdefault("Content-Type", content_type)
        url = _with_query(path, params)
        began = time.monotonic()
        try:
            while True:
                try:
                    response = self._ask(method, url, payload, sent)
                except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
                    # The server may close an idle connection at any time; the request never reached it.
                    self.close()
                    response = self._ask(method, url, payload, sent)
                raw = response.read()
                if response.status != 429 or NOT_BEGUN not in raw or time.monotonic() - began > PATIENCE_SECONDS:
                    break
                time.sleep(0.1)
        except BaseException:
            # Cut off half-way, as by the time limit of a test: the next test that shares this client can go on.
            self.close()
            raise
        # Repeated headers (one per warning) are joined, as RFC 9110 allows.
        received: dict[str, str] = {}
        for name, value in response.getheaders():
            key = name.lower()
            received[key] = f"{received[key]}, {value}" if key in received else value
        answer = Answer(response.status, received, raw)
        if response.status == 201 and "dryRun" not in params:
            self._remember(method, path, answer)
        return answer

    def call(self, method: str, path: str, body: Any = None, *, expect: int | None = None, **options: Any) -> Any:
        """Send one request and return the JSON of the answer, which must have the expected code (default: any 2xx)."""
        answer = self.send(method, path, body, **options)
        right = answer.code == expect if expect else 200 <= answer.code < 300
        assert right, (
            f"{method} {path}: {answer.code}, wanted {expect or '2xx'}: {answer.raw[:2000].decode(errors='replace')}"
        )
        return answer.body

    def get(self, path: str, **options: Any) -> Any:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Any:
        return self.call("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Any:
        return self.call("PUT", path, body, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.call("DELETE", path, body, **options)

    def merge(self, path: str, patch: Any, **options: Any) -> Any:
        return self.call("PATCH", path, patch, content_type=MERGE_PATCH, **options)

    def json_patch(self, path: str, patch: Any, **options: Any) -> Any:
        return self.call("PATCH", path, patch, content_type=JSON_PATCH, **options)

    def strategic(self, path: str, patch: Any, **options: Any) -> Any:
        return self.call("PATCH", path, patch, content_type=STRATEGIC_PATCH, **options)

    def apply(self, path: str, body: Any, *, manager: str = "contract", **options: Any) -> Any:
        return self.call("PATCH", path, body, content_type=APPLY_PATCH, fieldManager=manager, **options)

    def watch(self, path: str, *, accept: str = "application/json", **params: Any) -> Watch:
        """Open a watch on a connection of its own; again while the server has not begun with a kind, as in `send`."""
        url, began = _with_query(path, {"watch": "true", **params}), time.monotonic()
        while True:
            watch = Watch(self._connect(), url, _headers(self.token, accept))
            if watch.code != 429 or NOT_BEGUN not in watch.refusal or time.monotonic() - began > PATIENCE_SECONDS:
                return watch
            watch.close()
            time.sleep(0.1)

    def gone(self, path: str) -> bool:
        return self.send("GET", path).code == 404

    def as_bearer(self, token: str | None) -> Api:
        """The same server entered with another token, or with none."""
        other = Api(self.target, token, self.created)
        self._others.append(other)
        return other

    def close(self) -> None:
        for other in self._others:
            other.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def clean_up(self) -> None:
        """Delete what was created, newest first, without waiting for finalizers that nobody serves."""
        while self.created:
            path = self.created.pop()
            answer = self.send("DELETE", path, gracePeriodSeconds=0, propagationPolicy="Background")
            left = answer.body if answer.code < 300 else {}
            if left.get("metadata", {}).get("finalizers"):
                self.send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
            if left.get("kind") == "Namespace" and not self.target.controllers:
                self.send("PUT", f"{path}/finalize", left | {"spec": {"finalizers": []}})

    def _ask(self, method: str, url: str, payload: bytes | None, sent: dict[str, str]) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, url, body=payload, headers=sent)
        return self._connection.getresponse()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self.target.host,
            self.target.port,
            context=self.target.tls,
            timeout=ANSWER_SECONDS,
            source_address=None if self.address is None else (self.address, 0),
        )

    def _remember(self, method: str, path: str, answer: Answer) -> None:
        metadata = answer.body.get("metadata", {}) if answer.raw.startswith(b"{") else {}
        # Reviews, bindings and tokens are answers, not objects: they have no uid.
        if metadata.get("uid"):
            self.created.append(f"{path}/{metadata['name']}" if method == "POST" else path)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch."""

    type: str
    object: Any

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


class Watch:
    """An open watch; every read is bounded."""

    def __init__(self, connection: http.client.HTTPSConnection, url: str, headers: dict[str, str]) -> None:
        self._connection = connection
        connection.request("GET", url, headers=headers)
        self._response = connection.getresponse()
        self.code = self._response.status
        self.refusal = b"" if self.code == 200 else self._response.read()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def next(self) -> Event:
        """The next event; a silent watch or an ended one fails the test."""
        assert self.code == 200, self.refusal
        line = self._response.readline()
        assert line, "the watch ended"
        event = json.loads(line)
        return Event(event["type"], event["object"])

    def take(self, count: int) -> list[tuple[str, str]]:
        """The next events as (type, name)."""
        return [(event.type, event.name) for event in (self.next() for _ in range(count))]

    def status(self) -> Any:
        """The whole body, for a watch that was refused before it began."""
        return json.loads(self.refusal)

    def until_closed(self) -> Iterator[Event]:
        """All events until the server ends the watch."""
        while line := self._response.readline():
            event = json.loads(line)
            yield Event(event["type"], event["object"])


def eventually(look: Callable[[], T], what: str, *, within: float = PATIENCE_SECONDS) -> T:
    """Look again and again until there is something; fail with the sentence when time is up."""
    deadline, between = time.monotonic() + within, pauses()
    while True:
        if seen := look():
            return seen
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(next(between))


def pauses() -> Iterator[float]:
    """Seconds between two looks: ever longer ones, so that looking does not take the time of what it waits for."""
    pause = 0.01
    while True:
        yield pause
        pause = min(pause * 1.3, 0.25)


def causes(status: Any) -> list[tuple[str, str]]:
    """The (reason, field) of each cause of a Status."""
    return [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]]


def _headers(token: str | None, accept: str) -> dict[str, str]:
    headers = {"Accept": accept, "User-Agent": "contract/1"}
    return headers | {"Authorization": f"Bearer {token}"} if token else headers


def _with_query(path: str, params: Mapping[str, Any]) -> str:
    given = {name: value for name, value in params.items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(given, doseq=True)}" if given else path
