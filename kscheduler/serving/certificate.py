"""A certificate for the serving port, made at start when no files are given.

As upstream's: signed by an authority made for the occasion, whose certificate follows in the chain
and whose key is thrown away. The key is RSA, because cipher suites that people list by hand
(`--tls-cipher-suites`) are mostly RSA ones.
"""

from __future__ import annotations

import datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks may disagree a little.
BACKDATED = datetime.timedelta(hours=1)
VALIDITY = datetime.timedelta(days=365)
LOOPBACK = ip_address("127.0.0.1")


def self_signed(bind_address: str, *, now: datetime.datetime) -> tuple[bytes, bytes]:
    """Chain and key in PEM, good for localhost, the loopback address and the bind address."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    epoch = int(now.timestamp())
    issuer = _name(f"localhost-ca@{epoch}")
    bound = ip_address(bind_address)
    addresses = [LOOPBACK] if bound.is_unspecified else [LOOPBACK, bound]
    names = [x509.DNSName("localhost"), *map(x509.IPAddress, addresses)]
    authority = (
        _template(issuer, issuer, authority_key.public_key(), now)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _template(_name(f"localhost@{epoch}"), issuer, key.public_key(), now)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    chain = certificate.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM)
    return chain, key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _template(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now - BACKDATED + VALIDITY)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
