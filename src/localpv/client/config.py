"""Which API server, and as whom: from a kubeconfig, or from the pod we run in."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localpv import errors
from localpv.client.credentials import Credentials, Fixed, TokenFile
from localpv.runtime.clock import Clock, SystemClock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Everything needed to reach one API server."""

    url: str
    tls: ssl.SSLContext | None = None
    """None: the authorities that the system trusts, or plain HTTP."""

    server_name: str = ""
    """The name that the server's certificate must have, when it is not the one in the address."""

    credentials: Credentials = field(default_factory=Fixed)
    namespace: str = "default"
    source: str = "the configuration"
    """Where all this comes from, for messages."""


def load(
    path: Path | None = None,
    *,
    context: str = "",
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Clock | None = None,
) -> Connection:
    """The connection that kubectl would use, and in a pod without a kubeconfig that of its service account.

    In this order: the file that is passed in, those in $KUBECONFIG, ~/.kube/config, the service account.
    """
    from localpv.client import kubeconfig

    clock = clock or SystemClock()
    if path is not None:
        return kubeconfig.read([path], context=context, clock=clock)
    if listed := [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]:
        present = [each for each in listed if each.exists()]
        if not present:
            raise errors.ConfigurationError(
                f"KUBECONFIG names {', '.join(map(str, listed))}, but there is no such file",
                hint="point KUBECONFIG to a kubeconfig or unset it",
            )
        return kubeconfig.read(present, context=context, clock=clock)
    usual = (home or Path.home()) / ".kube" / "config"
    if usual.exists():
        return kubeconfig.read([usual], context=context, clock=clock)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ=environ, service_account=service_account)
    raise errors.ConfigurationError(
        f"no API server is configured: there is no {usual}, KUBECONFIG is not set, and this is not a pod",
        hint="set KUBECONFIG; `localpv up` prints the value for its own server",
    )


def in_cluster(*, environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """The API server of the cluster that this pod runs in, as the pod's service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise errors.ConfigurationError(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set",
            hint="both are set in every pod; elsewhere use a kubeconfig",
        )
    authority, namespace = service_account / "ca.crt", service_account / "namespace"
    try:
        tls = ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise errors.ConfigurationError(
            f"the certificate authority {authority} cannot be used: {error}",
            hint="check that automountServiceAccountToken is not off for this pod",
        ) from error
    address = f"[{host}]" if ":" in host else host
    return Connection(
        url=f"https://{address}:{port}",
        tls=tls,
        credentials=TokenFile(service_account / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        source=f"the service account in {service_account}",
    )
