"""Certificates and keys that belong together, and what is said of those that do not."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kscheduler.client.tls import check_bundle, check_pair
from kscheduler.errors import ConfigError
from tests.client.authority import Authority

NO_BASE64 = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"
NO_CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
NO_KEY = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def authority():
    return Authority()


def refusal(function, *data):
    with pytest.raises(ConfigError) as refused:
        function(*data)
    return str(refused.value)


def test_a_pair_among_other_things_is_found(authority):
    certificate, key = authority.issue("a")
    check_pair(b"text\n" + NO_KEY + certificate + authority.pem, certificate + key)


def test_what_is_no_certificate(authority):
    certificate, key = authority.issue("a")
    nothing = "tls: failed to find any PEM data in certificate input"
    assert refusal(check_pair, b"", key) == nothing
    assert refusal(check_pair, NO_BASE64, key) == nothing
    assert refusal(check_pair, NO_CERTIFICATE, key) == "x509: malformed certificate"
    assert refusal(check_pair, key, certificate).endswith("PEM inputs may have been switched")
    assert refusal(check_pair, NO_KEY + NO_KEY, key) == (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
        "blocks of the following types: [PRIVATE KEY PRIVATE KEY]"
    )


def test_what_is_no_key(authority):
    certificate, _ = authority.issue("a")
    assert refusal(check_pair, certificate, b"x") == "tls: failed to find any PEM data in key input"
    assert refusal(check_pair, certificate, NO_KEY) == "tls: failed to parse private key"
    assert refusal(check_pair, certificate, certificate) == (
        "tls: found a certificate rather than a key in the PEM for the private key"
    )
    assert refusal(check_pair, certificate, certificate * 2) == (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        "skipping PEM blocks of the following types: [CERTIFICATE CERTIFICATE]"
    )


def test_a_key_under_a_password_is_not_asked_for_it(authority):
    certificate, key = authority.issue("a")
    locked = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"x")
    )
    assert refusal(check_pair, certificate, locked) == "tls: failed to parse private key"


def test_keys_of_others(authority):
    certificate, _ = authority.issue("a")
    _, key = authority.issue("b")
    assert refusal(check_pair, certificate, key) == "tls: private key does not match public key"
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    assert refusal(check_pair, certificate, other) == (
        "tls: private key type does not match public key type"
    )


def test_one_broken_certificate_spoils_a_bundle(authority):
    check_bundle(b"text\n" + authority.pem + NO_BASE64)
    assert refusal(check_bundle, authority.pem + NO_CERTIFICATE) == "x509: malformed certificate"
    assert refusal(check_bundle, NO_BASE64) == (
        "data does not contain any valid RSA or ECDSA certificates"
    )
