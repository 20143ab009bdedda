"""What a control plane for tests proves itself with: an authority, a server, a signing key."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=30)
DNS_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def write_certificates(
    folder: Path, clients: dict[str, str], authority: "Authority | None" = None
) -> None:
    """ca.crt, service-accounts.key and its public half; certificates and keys of the servers on
    loopback (apiserver, kubelet) and of each client, by the name of the files.

    All are issued by this authority, or by one of their own.
    """
    authority = authority or Authority()
    write_private(folder / "ca.crt", _pem(authority.certificate))
    names = x509.SubjectAlternativeName(_server_names())
    serves = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    _write_pair(folder, "apiserver", *authority.issue("kube-apiserver", serves, names))
    _write_pair(folder, "kubelet", *authority.issue("system:node:loopback", serves, names))
    for name, user in clients.items():
        connects = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        _write_pair(folder, name, *authority.issue(user, connects))
    signing = _key()
    write_private(folder / "service-accounts.key", _private(signing))
    write_private(folder / "service-accounts.pub", _public(signing))


def certificate_of(folder: Path, name: str) -> dict[str, str]:
    """A client as kubeconfigs have it."""
    return {
        "client-certificate": str(folder / f"{name}.crt"),
        "client-key": str(folder / f"{name}.key"),
    }


def write_private(path: Path, content: str) -> None:
    path.touch(mode=0o600)
    path.write_text(content)


class Authority:
    def __init__(self) -> None:
        self._key = _key()
        self._name = _name("test control plane")
        self.certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_signs_certificates(), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )

    def issue(
        self, name: str, *extensions: x509.ExtensionType
    ) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = _key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = _builder(_name(name), self._name, key.public_key()).add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        for extension in (issuer, *extensions):
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256()), key


def _write_pair(
    folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    write_private(folder / f"{name}.crt", _pem(certificate))
    write_private(folder / f"{name}.key", _private(key))


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _server_names() -> list[x509.GeneralName]:
    addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    return [*map(x509.DNSName, DNS_NAMES), *addresses]


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
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
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


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _public(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
