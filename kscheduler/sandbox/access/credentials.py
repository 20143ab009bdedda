"""Credentials: a throw-away authority that signs certificates, and kubeconfigs."""

from __future__ import annotations

import base64
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kscheduler.private_files import write_private_file

_VALID = timedelta(days=365)
_CLOCK_SKEW = timedelta(minutes=5)
_SIGNS = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, PEM encoded."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for servers and users; lives as long as the process."""

    def __init__(self, name: str = "kscheduler-sandbox-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).add_extension(_SIGNS, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def serving(self, hosts: tuple[str, ...]) -> KeyPair:
        names = x509.SubjectAlternativeName([_host_name(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: tuple[str, ...] = ()) -> KeyPair:
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(parts), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = _builder(subject, self._name, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(issuer, critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)


def serving_context(authority: Authority, hosts: tuple[str, ...]) -> ssl.SSLContext:
    """A server context that asks clients for a certificate and takes those without one too."""
    pair = authority.serving(hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    load_pair(context, pair)
    return context


def load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    with tempfile.TemporaryDirectory() as folder:  # ssl reads key pairs from files only
        path = Path(folder, "pair.pem")
        path.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(path)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


_NAME = "sandbox"


def make_kubeconfig(
    url: str, *, token: str = "", ca: bytes = b"", client: KeyPair | None = None
) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": url}
    if ca:
        cluster["certificate-authority-data"] = _coded(ca)
    user: dict[str, Any] = {}
    if token:
        user["token"] = token
    if client is not None:
        user["client-certificate-data"] = _coded(client.certificate)
        user["client-key-data"] = _coded(client.key)
    context = {"cluster": _NAME, "user": _NAME, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": context}],
        "current-context": _NAME,
    }


def write_private(path: Path, config: dict[str, Any]) -> None:
    """Write a kubeconfig only its owner can read: it holds a credential."""
    write_private_file(path, yaml.safe_dump(config, sort_keys=False).encode())


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()
