"""The certificate made at start, against the one kube-scheduler was seen with."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from kscheduler.serving.certificate import self_signed

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
EPOCH = int(NOW.timestamp())


def made(address):
    chain, key = self_signed(address, now=NOW)
    leaf, authority = x509.load_pem_x509_certificates(chain)
    return leaf, authority, load_pem_private_key(key, password=None)


def test_it_looks_like_upstreams():
    leaf, authority, key = made("127.0.0.1")
    assert leaf.subject.rfc4514_string() == f"CN=localhost@{EPOCH}"
    assert leaf.issuer.rfc4514_string() == f"CN=localhost-ca@{EPOCH}"
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == datetime.timedelta(days=365)
    assert leaf.not_valid_before_utc == NOW - datetime.timedelta(hours=1)
    told = [(type(extension.value), extension.critical) for extension in leaf.extensions]
    assert told == [
        (x509.KeyUsage, True),
        (x509.ExtendedKeyUsage, False),
        (x509.BasicConstraints, True),
        (x509.SubjectAlternativeName, False),
    ]
    purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert leaf.public_key() == key.public_key()
    leaf.verify_directly_issued_by(authority)


@pytest.mark.parametrize(
    ("address", "want"),
    [
        ("0.0.0.0", ["127.0.0.1"]),
        ("::", ["127.0.0.1"]),
        ("127.0.0.1", ["127.0.0.1", "127.0.0.1"]),
        ("10.1.2.3", ["127.0.0.1", "10.1.2.3"]),
        ("fd00::1", ["127.0.0.1", "fd00::1"]),
    ],
)
def test_names_are_localhost_loopback_and_what_is_bound(address, want):
    leaf, _, _ = made(address)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == want
