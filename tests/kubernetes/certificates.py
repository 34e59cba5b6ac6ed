"""Keys and certificates for one throw-away control plane: an authority, a serving certificate, a signing key."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=2)
"""Longer than any test run, short enough that a forgotten file is worth nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The files that the programs of a control plane are started with."""

    authority: Path
    serving_certificate: Path
    serving_key: Path
    signing_key: Path
    """Signs the tokens of service accounts."""


def write(folder: Path) -> Certificates:
    """Make a new set of keys and certificates in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Certificates(
        authority=folder / "ca.crt",
        serving_certificate=folder / "serving.crt",
        serving_key=folder / "serving.key",
        signing_key=folder / "service-accounts.key",
    )
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localpv-tests")])
    authority = (
        _builder(subject=authority_name, issuer=authority_name, key=authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    serving_key = ec.generate_private_key(ec.SECP256R1())
    serving_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    serving = (
        _builder(subject=serving_name, issuer=authority_name, key=serving_key)
        .add_extension(
            x509.SubjectAlternativeName(
                [
                    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                    x509.DNSName("localhost"),
                    x509.DNSName("kubernetes.default.svc"),
                ]
            ),
            critical=False,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.serving_certificate.write_bytes(serving.public_bytes(serialization.Encoding.PEM))
    _write_key(files.serving_key, serving_key)
    _write_key(files.signing_key, ec.generate_private_key(ec.SECP256R1()))
    return files


def _builder(*, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
