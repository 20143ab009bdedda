"""Certificates and private keys in PEM, found wanting in the words of Go's crypto/tls."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key

from kscheduler.errors import ConfigError

_BLOCK = re.compile(
    rb"^-----BEGIN ([^\n]*)-----\s*$(.*?)^-----END \1-----", re.DOTALL | re.MULTILINE
)
_HEADERS = re.compile(rb"\s*(?:[^\n]*:[^\n]*\n)+")


class Block(NamedTuple):
    label: str
    has_headers: bool
    content: bytes


def pem_blocks(data: bytes) -> Iterator[Block]:
    """What stands between dashes; blocks that are not base64 do not count, nor does other text."""
    for label, body in _BLOCK.findall(data):
        headers = _HEADERS.match(body)
        text = b"".join(body[headers.end() if headers else 0 :].split())
        try:
            content = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
        yield Block(label.decode(errors="replace"), headers is not None, content)


def check_bundle(data: bytes) -> None:
    """Raises unless `data` holds at least one certificate, and no broken one."""
    found = [b for b in pem_blocks(data) if b.label == "CERTIFICATE" and not b.has_headers]
    for block in found:
        _certified(block)
    if not found:
        raise ConfigError("data does not contain any valid RSA or ECDSA certificates")


def check_pair(certificate: bytes, key: bytes) -> None:
    """Raises unless the first certificate is there and the key is its own."""
    public = _certificate(list(pem_blocks(certificate)))
    private_block = _key_block(list(pem_blocks(key)))
    certified, private = _certified(public), _private(private_block)
    if type(certified) is not type(private.public_key()):
        raise ConfigError("tls: private key type does not match public key type")
    if certified != private.public_key():
        raise ConfigError("tls: private key does not match public key")


def _certificate(blocks: list[Block]) -> Block:
    labels = [block.label for block in blocks]
    if "CERTIFICATE" in labels:
        return blocks[labels.index("CERTIFICATE")]
    if not labels:
        raise ConfigError("tls: failed to find any PEM data in certificate input")
    if len(labels) == 1 and labels[0].endswith("PRIVATE KEY"):
        raise ConfigError(
            "tls: failed to find certificate PEM data in certificate input, but did find a "
            "private key; PEM inputs may have been switched"
        )
    raise ConfigError(
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
        f"blocks of the following types: [{' '.join(labels)}]"
    )


def _key_block(blocks: list[Block]) -> Block:
    for block in blocks:
        if block.label == "PRIVATE KEY" or block.label.endswith(" PRIVATE KEY"):
            return block
    labels = [block.label for block in blocks]
    if not labels:
        raise ConfigError("tls: failed to find any PEM data in key input")
    if labels == ["CERTIFICATE"]:
        raise ConfigError(
            "tls: found a certificate rather than a key in the PEM for the private key"
        )
    raise ConfigError(
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        f"skipping PEM blocks of the following types: [{' '.join(labels)}]"
    )


def _certified(block: Block) -> PublicKeyTypes:
    try:
        return x509.load_der_x509_certificate(block.content).public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError("x509: malformed certificate") from error


def _private(block: Block) -> PrivateKeyTypes:
    try:
        return load_der_private_key(block.content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError("tls: failed to parse private key") from error
