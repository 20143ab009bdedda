"""Certificates for tests, good ones and all kinds of others."""

import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
DAY = datetime.timedelta(days=1)
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


@dataclass(frozen=True)
class Minted:
    """A certificate, its key, and who has signed it above."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    above: tuple[x509.Certificate, ...] = ()

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return (self.certificate, *self.above)

    @property
    def der_chain(self) -> tuple[bytes, ...]:
        return tuple(one.public_bytes(Encoding.DER) for one in self.chain)

    def write(self, path) -> str:
        """Chain and key in one file, as OpenSSL takes them."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = b"".join(one.public_bytes(Encoding.PEM) for one in self.chain)
        path.write_bytes(chain + key)
        return str(path)


def mint(
    common_name,
    *groups,
    by=None,
    uids=(),
    authority=False,
    path_length=None,
    usages=(CLIENT,),
    starts=NOW - DAY,
    ends=NOW + DAY,
    may_sign=True,
    extensions=(),
):
    """Signed by `by`, or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    attributes += [x509.NameAttribute(UID, uid) for uid in uids]
    if common_name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    subject = x509.Name(attributes)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=path_length), critical=True)
    )
    if authority:
        builder = builder.add_extension(_usage(signs=may_sign), critical=True)
    elif usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    certificate = builder.sign(by.key if by else key, hashes.SHA256())
    is_root = by is None or by.certificate.issuer == by.certificate.subject
    return Minted(certificate, key, () if is_root else by.chain)


def mint_authority(name="authority", **settings):
    return mint(name, authority=True, **settings)


def _usage(*, signs):
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
