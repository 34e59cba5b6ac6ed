"""Kubeconfig files: reading, merging, and refusing by name what we do not support."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localpv import errors
from localpv.api import yamls
from localpv.client.config import Connection
from localpv.client.credentials import Credentials, Fixed, Impersonating, TokenFile, decode_data, load_certificate
from localpv.client.exec_plugin import API_VERSIONS, FromPlugin, Plugin
from localpv.runtime.clock import Clock

_REFUSED = {
    "auth-provider": "Kubernetes removed it; use exec with the provider's credential plugin",
    "username": "API servers no longer know passwords; use a token or a client certificate",
    "as-user-extra": "leave it out",
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """A cluster, a user or a context, and the file it stands in, to which its paths are relative."""

    file: Path
    what: str
    fields: Mapping[str, Any]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(name, "is not a string")
        return value

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return self.file.parent / text if text else None

    def content(self, name: str) -> bytes | None:
        """What NAME-data holds or, failing that, the file that NAME points to."""
        if data := self.text(f"{name}-data"):
            return decode_data(data, where=f"{self.file}: {self.what}: {name}-data")
        if (path := self.path(name)) is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.wrong(name, f"cannot be read: {error}") from error

    def wrong(self, name: str, what: str, *, hint: str = "") -> errors.ConfigurationError:
        return errors.ConfigurationError(
            f"{self.file}: {self.what}: {name} {what}", hint=hint or f"mend {name} in {self.file}"
        )


def read(files: Sequence[Path], *, context: str = "", clock: Clock) -> Connection:
    """The connection of a context. Of several files, the first that says something has the word."""
    merged: dict[str, dict[str, _Entry]] = {"cluster": {}, "user": {}, "context": {}}
    current = context
    for file in files:
        document = _document(file)
        current = current or document.get("current-context") or ""
        for what, entries in merged.items():
            for name, fields in _entries(file, document, what):
                entries.setdefault(name, _Entry(file, f"{what} {name}", fields))
    shown = ", ".join(map(str, files))
    if not current:
        raise errors.ConfigurationError(
            f"{shown}: there is no current-context", hint="choose one with `kubectl config use-context`"
        )
    chosen = _find(merged["context"], "context", current, shown)
    cluster = _find(merged["cluster"], "cluster", chosen.text("cluster"), shown)
    user = _find(merged["user"], "user", chosen.text("user"), shown) if chosen.text("user") else None
    tls = _tls(cluster)
    return Connection(
        url=_server(cluster),
        tls=tls,
        server_name=cluster.text("tls-server-name"),
        credentials=_credentials(user, cluster, tls, clock) if user else Fixed(),
        namespace=chosen.text("namespace") or "default",
        source=f"context {current} of {shown}",
    )


def _document(file: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yamls.load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigurationError(
            f"the kubeconfig {file} cannot be read: {error}", hint="check the path and its permissions"
        ) from error
    except yaml.YAMLError as error:
        raise errors.ConfigurationError(f"the kubeconfig {file} is not YAML: {error}", hint=f"mend {file}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise errors.ConfigurationError(f"the kubeconfig {file} is not a map", hint=f"mend {file}")
    return document


def _entries(file: Path, document: Mapping[str, Any], what: str) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for index, entry in enumerate(document.get(f"{what}s") or ()):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise errors.ConfigurationError(f"{file}: {what}s[{index}].name is missing", hint=f"mend {file}")
        fields = entry.get(what) or {}
        if not isinstance(fields, dict):
            raise errors.ConfigurationError(f"{file}: {what}s[{index}].{what} is not a map", hint=f"mend {file}")
        found.append((entry["name"], fields))
    return found


def _find(entries: Mapping[str, _Entry], what: str, name: str, shown: str) -> _Entry:
    if name in entries:
        return entries[name]
    known = ", ".join(entries) or "none"
    raise errors.ConfigurationError(f"{shown}: there is no {what} {name!r}", hint=f"there are: {known}")


def _server(cluster: _Entry) -> str:
    url = cluster.text("server")
    if not url.startswith(("https://", "http://")):
        raise cluster.wrong("server", f"is {url!r}, not an address", hint="it looks like https://HOST:PORT")
    if cluster.text("proxy-url"):
        raise cluster.wrong("proxy-url", "is not supported", hint="reach the server directly or through a tunnel")
    return url


def _tls(cluster: _Entry) -> ssl.SSLContext | None:
    if cluster.text("server").startswith("http://"):
        return None
    authority = cluster.content("certificate-authority")
    if cluster.fields.get("insecure-skip-tls-verify"):
        if authority is not None:
            raise cluster.wrong("insecure-skip-tls-verify", "excludes a certificate authority", hint="keep one of them")
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        return tls
    if authority is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=authority.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise cluster.wrong("certificate-authority", f"is no certificate in PEM form: {error}") from error


def _credentials(user: _Entry, cluster: _Entry, tls: ssl.SSLContext | None, clock: Clock) -> Credentials:
    for name, instead in _REFUSED.items():
        if user.fields.get(name):
            raise user.wrong(name, "is not supported", hint=instead)
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise user.wrong(missing, "is missing", hint="client-certificate and client-key go together")
    if certificate is not None and key is not None and tls is not None:
        try:
            load_certificate(tls, certificate=certificate, key=key)
        except ssl.SSLError as error:
            raise user.wrong("client-certificate", f"and its key cannot be used: {error}") from error
    made: Credentials
    if user.fields.get("exec"):
        made = FromPlugin(_plugin(user, cluster), tls=tls, clock=clock)
    elif (path := user.path("tokenFile")) is not None:
        made = TokenFile(path)
    else:
        made = Fixed(user.text("token"))
    return _impersonating(user, made)


def _impersonating(user: _Entry, inner: Credentials) -> Credentials:
    groups = user.fields.get("as-groups") or []
    if not user.text("as"):
        if groups or user.text("as-uid"):
            raise user.wrong("as", "is missing", hint="as-groups and as-uid need it")
        return inner
    headers = [("Impersonate-User", user.text("as")), *(("Impersonate-Group", str(group)) for group in groups)]
    if uid := user.text("as-uid"):
        headers.append(("Impersonate-Uid", uid))
    return Impersonating(inner, tuple(headers))


def _plugin(user: _Entry, cluster: _Entry) -> Plugin:
    given = user.fields["exec"]
    if not isinstance(given, dict):
        raise user.wrong("exec", "is not a map")
    entry = _Entry(user.file, f"{user.what}: exec", given)
    if not (command := entry.text("command")):
        raise entry.wrong("command", "is missing")
    version = entry.text("apiVersion")
    if version not in API_VERSIONS:
        raise entry.wrong("apiVersion", f"{version!r} is not supported", hint=f"use {API_VERSIONS[0]}")
    if entry.text("interactiveMode") == "Always":
        raise entry.wrong("interactiveMode", "Always is not supported", hint="use IfAvailable or Never")
    if os.sep in command:
        command = str(user.file.parent / command)
    return Plugin(
        command=command,
        arguments=tuple(str(each) for each in given.get("args") or ()),
        environment={str(each["name"]): str(each["value"]) for each in given.get("env") or ()},
        api_version=version,
        install_hint=entry.text("installHint"),
        cluster=_cluster_info(cluster) if given.get("provideClusterInfo") else None,
        where=f"{user.file}: {user.what}",
    )


def _cluster_info(cluster: _Entry) -> dict[str, Any]:
    """The cluster as an ExecCredential's spec.cluster has it."""
    info: dict[str, Any] = {"server": cluster.text("server")}
    if name := cluster.text("tls-server-name"):
        info["tls-server-name"] = name
    if cluster.fields.get("insecure-skip-tls-verify"):
        info["insecure-skip-tls-verify"] = True
    if (authority := cluster.content("certificate-authority")) is not None:
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    return info
