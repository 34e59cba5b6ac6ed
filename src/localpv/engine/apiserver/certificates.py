"""The certificate authority and the server's certificate, made on the first start, and the kubeconfig that trusts them.

Files in DATA/tls: `ca.key`, `ca.crt`, `server.key`, `server.crt`, and `server.json`, which notes what the certificate
holds. Keys are written before the certificates that are made from them, and are kept when a certificate is made anew:
dying between any two steps leaves files that the next start completes, and a kubeconfig once handed out stays good.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localpv.engine.apiserver.auth import secret_files
from localpv.errors import StartError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

SERVER_LIFETIME = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=365)
"""A server that is started once a year never shows an expired certificate."""

_ALWAYS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
)

# Small machines start with a clock that is years behind; a certificate must not be "not yet valid" there, nor
# expire the moment the clock is set right.
_VALID_FROM = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_BEFORE_THIS = datetime(2026, 1, 1, tzinfo=UTC)
_FOREVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the files are."""

    folder: Path

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"

    @property
    def certificate(self) -> Path:
        return self.folder / "server.crt"

    @property
    def note(self) -> Path:
        return self.folder / "server.json"


def names(listen_host: str, node_name: str) -> list[str]:
    """The names and addresses under which clients may reach the server."""
    found = [*_ALWAYS, node_name]
    if listen_host in ("", "0.0.0.0", "::"):
        found += [socket.gethostname(), *_own_addresses()]
    else:
        found.append(listen_host)
    return list(dict.fromkeys(_plain(name) for name in found if name and name.isascii()))


def ensure(folder: Path, wanted: Iterable[str], *, now: datetime | None = None) -> Paths:
    """Make what is missing, and a new server certificate when the present one ends soon or lacks a name."""
    paths, wanted = Paths(folder), list(wanted)
    now = now or datetime.now(UTC)
    certificate, ca = secret_files.read(paths.certificate), secret_files.read(paths.ca)
    complete = all(secret_files.read(path) for path in (paths.ca_key, paths.key))
    if certificate and ca and complete:
        held = _held(paths, certificate + ca)
        if held and _good(held, wanted, now):
            return paths
    _make_in_a_child(paths, wanted, now)
    return paths


def ssl_context(paths: Paths) -> ssl.SSLContext:
    """For the listening socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(paths.certificate, paths.key)
    except (OSError, ssl.SSLError) as error:
        hint = f"remove {paths.certificate} and {paths.key} to have them made anew"
        raise StartError(f"cannot use the certificate {paths.certificate}: {error}", hint=hint) from error
    return context


def write_kubeconfig(path: Path, server: str, ca: bytes, token: str) -> None:
    """A kubeconfig with all that a client needs inside; only its owner may read it."""
    text = f"""\
apiVersion: v1
kind: Config
clusters:
- name: localpv
  cluster:
    server: {json.dumps(server)}
    certificate-authority-data: {base64.b64encode(ca).decode()}
users:
- name: localpv
  user:
    token: {json.dumps(token)}
contexts:
- name: localpv
  context:
    cluster: localpv
    user: localpv
    namespace: default
current-context: localpv
"""
    if secret_files.read(path) != text.encode():
        secret_files.write(path, text.encode())


def _own_addresses() -> list[str]:
    """The addresses from which this machine would speak to the world. Connecting a UDP socket sends nothing."""
    found = []
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                found.append(probe.getsockname()[0])
        except OSError:
            continue  # No route, or no such protocol: then nobody comes in that way either.
    return found


def _plain(name: str) -> str:
    """An address in its one normal form, without zone or brackets; a name in lower case."""
    name = name.strip("[]").partition("%")[0].lower()
    try:
        return str(ip_address(name))
    except ValueError:
        return name


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _held(paths: Paths, certificates: bytes) -> tuple[set[str], datetime] | None:
    """The names in the server's certificate and when it ends, from the note beside it.

    The note saves every later start from loading a cryptography library. It counts only for the very files
    that it was written for.
    """
    try:
        note = json.loads(secret_files.read(paths.note) or b"{}")
        if note["sha256"] == _digest(certificates):
            return set(note["names"]), datetime.fromisoformat(note["until"])
    except (ValueError, KeyError, TypeError):
        pass  # A damaged note is as good as none.
    return None


def _make_in_a_child(paths: Paths, wanted: list[str], now: datetime) -> None:
    """Do `_make` in a process of its own.

    The cryptography library takes 13 MB that this process would keep for years, for the sake of a few
    milliseconds on its first start. Forking is safe only as long as there is a single thread.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        _make(paths, wanted, now)
        return
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = b""
        try:
            _make(paths, wanted, now)
        except StartError as error:
            told = json.dumps([error.message, error.hint]).encode()
        except BaseException as error:
            told = json.dumps([f"cannot make a certificate: {error!r}", ""]).encode()
        finally:
            os.write(writing, told or b"null")
            # Leave without the clean-up that belongs to the parent: its buffers, its at-exit functions.
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    failure = json.loads(told) if told else ["cannot make a certificate: the process for it was killed", ""]
    if failure:
        raise StartError(failure[0], hint=failure[1])


def _make(paths: Paths, wanted: list[str], now: datetime) -> None:
    ca_key, server_key = _key(paths.ca_key), _key(paths.key)
    ca, ca_pem = _authority(paths.ca, ca_key)
    present = secret_files.read(paths.certificate)
    if present and (held := _inspect(present, server_key, ca)) and _good(held, wanted, now):
        # Only the note is missing.
        _write_note(paths, present + ca_pem, *held)
        return
    until = (max(now, _NOT_BEFORE_THIS) + SERVER_LIFETIME).replace(microsecond=0)
    issued = _issue(wanted, server_key, ca, ca_key, until)
    secret_files.write(paths.certificate, issued)
    _write_note(paths, issued + ca_pem, set(wanted), until)


def _good(held: tuple[set[str], datetime], wanted: list[str], now: datetime) -> bool:
    found, until = held
    return found.issuperset(wanted) and until - now > RENEW_BEFORE


def _write_note(paths: Paths, certificates: bytes, found: set[str], until: datetime) -> None:
    note = {"sha256": _digest(certificates), "names": sorted(found), "until": until.isoformat()}
    secret_files.write(paths.note, json.dumps(note).encode())


def _inspect(pem: bytes, key: EllipticCurvePrivateKey, ca: x509.Certificate) -> tuple[set[str], datetime] | None:
    """The names in a certificate and when it ends; None when it is not for this key or not from this authority."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        certificate = x509.load_pem_x509_certificate(pem)
        if certificate.public_key() != key.public_key():
            return None
        certificate.verify_directly_issued_by(ca)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return None
    hosts = found.get_values_for_type(x509.DNSName)
    addresses = found.get_values_for_type(x509.IPAddress)
    return {*hosts, *(str(address) for address in addresses)}, certificate.not_valid_after_utc


def _key(path: Path) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = secret_files.read(path)
    if not pem:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        secret_files.write(path, pem)
        return key
    try:
        loaded = serialization.load_pem_private_key(pem, password=None)
    except ValueError as error:
        raise _unreadable(path) from error
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise _unreadable(path)
    return loaded


def _unreadable(path: Path) -> StartError:
    return StartError(
        f"{path} is damaged or of an unknown kind", hint=f"remove {path.parent} to have all certificates made anew"
    )


def _authority(path: Path, key: EllipticCurvePrivateKey) -> tuple[x509.Certificate, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    pem = secret_files.read(path)
    if pem:
        try:
            present = x509.load_pem_x509_certificate(pem)
        except ValueError as error:
            raise _unreadable(path) from error
        if present.public_key() == key.public_key():
            return present, pem
    name = _name("localpv-ca")
    builder = _builder(name, name, key.public_key(), _FOREVER)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret_files.write(path, pem)
    return certificate, pem


def _issue(
    wanted: list[str],
    key: EllipticCurvePrivateKey,
    ca: x509.Certificate,
    ca_key: EllipticCurvePrivateKey,
    until: datetime,
) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID

    builder = _builder(_name("localpv-apiserver"), ca.subject, key.public_key(), until)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in wanted]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = builder.add_extension(authority, critical=False)
    return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _builder(subject: x509.Name, issuer: x509.Name, public_key: Any, until: datetime) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID_FROM)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, key_cert_sign: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
