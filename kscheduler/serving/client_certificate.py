"""Client certificates: the user one names, and whether a trusted authority stands behind it.

The rules are those of Go's crypto/x509 for client certificates: a chain from the certificate to an
authority, every link signed, valid now and allowed to sign, and meant for client authentication.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kscheduler.api.small_groups import UserInfo
from kscheduler.client.tls import check_bundle, pem_blocks
from kscheduler.errors import ConfigError
from kscheduler.serving.trust import UntrustedCertificateError

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")

# Real chains are shorter; a hostile one must not cost more than this.
MAX_DEPTH = 10
MAX_SIGNATURE_CHECKS = 100

CLIENT_USAGES = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
UNDERSTOOD = {
    x509.OID_BASIC_CONSTRAINTS,
    x509.OID_KEY_USAGE,
    x509.OID_EXTENDED_KEY_USAGE,
    x509.OID_SUBJECT_ALTERNATIVE_NAME,
    x509.OID_NAME_CONSTRAINTS,
    x509.OID_CERTIFICATE_POLICIES,
    x509.OID_AUTHORITY_KEY_IDENTIFIER,
    x509.OID_SUBJECT_KEY_IDENTIFIER,
}

Chain = Sequence[x509.Certificate]
E = TypeVar("E", bound=x509.ExtensionType)


@dataclass(frozen=True, slots=True)
class Authorities:
    """Certificates that need no further proof, and the PEM they came as."""

    pem: bytes
    certificates: tuple[x509.Certificate, ...] = field(repr=False)

    @classmethod
    def from_pem(cls, data: bytes) -> Authorities:
        check_bundle(data)
        found = [b for b in pem_blocks(data) if b.label == "CERTIFICATE" and not b.has_headers]
        return cls(data, tuple(x509.load_der_x509_certificate(block.content) for block in found))


def load_chain(encoded: Sequence[bytes]) -> tuple[x509.Certificate, ...]:
    """Certificates in DER, as a client has sent them."""
    try:
        return tuple(x509.load_der_x509_certificate(one) for one in encoded)
    except ValueError as error:
        raise UntrustedCertificateError("x509: malformed certificate") from error


def verify(chain: Chain, authorities: Authorities, now: datetime.datetime) -> None:
    """Raises unless a chain leads from the first certificate to one of the authorities."""
    leaf, *intermediates = chain
    try:
        for problem in _problems(leaf, now):
            raise UntrustedCertificateError(problem)
        _Search(leaf, intermediates[:MAX_SIGNATURE_CHECKS], authorities, now).run()
    except (ValueError, UnsupportedAlgorithm, ConfigError) as error:
        raise UntrustedCertificateError(f"x509: {error}") from error


def user_of(certificate: x509.Certificate) -> UserInfo | None:
    """The user a verified certificate names; None if it has no common name."""
    names = _values(certificate, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    uids = _values(certificate, UID)
    if len(uids) > 1:
        raise UntrustedCertificateError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    fingerprint = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    return UserInfo(
        username=names[-1],
        uid=uids[0] if uids else "",
        groups=_values(certificate, NameOID.ORGANIZATION_NAME),
        extra={CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)},
    )


def common_name(certificate: x509.Certificate) -> str:
    names = _values(certificate, NameOID.COMMON_NAME)
    return names[-1] if names else ""


def identifier(certificate: x509.Certificate) -> str:
    """A certificate's name in log lines."""
    subject = _extension(certificate, x509.SubjectKeyIdentifier)
    authority = _extension(certificate, x509.AuthorityKeyIdentifier)
    subject_key = subject.digest if subject else b""
    authority_key = (authority.key_identifier if authority else None) or b""
    return (
        f"SN={certificate.serial_number}, "
        f"SKID={subject_key.hex(':').upper()}, AKID={authority_key.hex(':').upper()}"
    )


class _Search(msgspec.Struct):
    """For a way from the leaf to an authority, over what else the client has sent."""

    leaf: x509.Certificate
    intermediates: Chain
    authorities: Authorities
    now: datetime.datetime
    checks: int = 0

    def run(self) -> None:
        if self.leaf in self.authorities.certificates:
            return
        if not self._leads_up((self.leaf,)):
            raise UntrustedCertificateError("x509: certificate signed by unknown authority")

    def _leads_up(self, path: tuple[x509.Certificate, ...]) -> bool:
        if len(path) > MAX_DEPTH:
            return False
        if any(self._signed(path, root) for root in self.authorities.certificates):
            return True
        return any(
            self._signed(path, issuer) and self._leads_up((*path, issuer))
            for issuer in self.intermediates
            if issuer not in path
        )

    def _signed(self, path: tuple[x509.Certificate, ...], issuer: x509.Certificate) -> bool:
        child = path[-1]
        if child.issuer != issuer.subject or not self._may_sign(issuer, below=len(path) - 1):
            return False
        self.checks += 1
        if self.checks > MAX_SIGNATURE_CHECKS:
            raise UntrustedCertificateError("x509: signature check attempts limit reached")
        if isinstance(child.signature_hash_algorithm, hashes.SHA1 | hashes.MD5):
            return False
        try:
            child.verify_directly_issued_by(issuer)
        except (InvalidSignature, TypeError):
            return False
        return True

    def _may_sign(self, issuer: x509.Certificate, *, below: int) -> bool:
        """`below` is how many certificates stand between the issuer and the leaf."""
        constraints = _extension(issuer, x509.BasicConstraints)
        if issuer.version is x509.Version.v3 and not (constraints and constraints.ca):
            return False
        limit = constraints.path_length if constraints else None
        usage = _extension(issuer, x509.KeyUsage)
        return (
            (limit is None or below <= limit)
            and (usage is None or usage.key_cert_sign)
            and not list(_problems(issuer, self.now))
            # Nothing here can tell whether the leaf's names are among those the issuer may name.
            and not (
                _extension(issuer, x509.NameConstraints)
                and _extension(self.leaf, x509.SubjectAlternativeName)
            )
        )


def _problems(certificate: x509.Certificate, now: datetime.datetime) -> Iterator[str]:
    """Reasons that keep a certificate from being part of any chain."""
    starts, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    expired = "x509: certificate has expired or is not yet valid: current time"
    if now < starts:
        yield f"{expired} {_time(now)} is before {_time(starts)}"
    if now > ends:
        yield f"{expired} {_time(now)} is after {_time(ends)}"
    if any(e.critical and e.oid not in UNDERSTOOD for e in certificate.extensions):
        yield "x509: unhandled critical extension"
    usages = _extension(certificate, x509.ExtendedKeyUsage)
    if usages is not None and CLIENT_USAGES.isdisjoint(usages):
        yield "x509: certificate specifies an incompatible key usage"


def _time(moment: datetime.datetime) -> str:
    return f"{moment.replace(microsecond=0, tzinfo=None).isoformat()}Z"


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _values(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    found = certificate.subject.get_attributes_for_oid(oid)
    return tuple(str(attribute.value) for attribute in found)
