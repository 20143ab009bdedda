"""TLS towards the API server: authorities, our certificate, and files that change meanwhile."""

import base64
import binascii
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.errors import ConfigError
from kscheduler.gotext import files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

# How often certificate files are checked for changes.
CHECK_SECONDS = 60.0
RETRY_SECONDS = 1.0
# How often the authority's file is read even if it looks the same; upstream's period.
RELOAD_SECONDS = 300.0

log = logs.logger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]

_BLOCK = re.compile(
    rb"^-----BEGIN ([^\n]*)-----\s*$(.*?)^-----END \1-----", re.DOTALL | re.MULTILINE
)
_HEADERS = re.compile(rb"\s*(?:[^\n]*:[^\n]*\n)+")


class TlsConfig(msgspec.Struct, frozen=True):
    """Authority and client certificate, each as a file or as PEM data."""

    ca_file: str = ""
    ca_data: bytes = b""
    cert_file: str = ""
    cert_data: bytes = b""
    key_file: str = ""
    key_data: bytes = b""
    insecure: bool = False
    server_name: str = ""

    @property
    def has_certificate(self) -> bool:
        return bool(self.cert_file or self.cert_data)


class TlsContexts:
    """The context new connections use; a new one when a file behind it has changed.

    Files are looked at once a minute, and sooner when a handshake has failed: they may just have
    been replaced. Connections that are open keep theirs. A file that is broken half-way through its
    replacement leaves the last good context in use. `reloaded` is called with result and reason of
    every check of the authority's file.
    """

    def __init__(
        self,
        config: TlsConfig,
        reloaded: Callable[[str, str], None] = lambda _result, _reason: None,
    ) -> None:
        self._authority = None
        if config.ca_file and not config.ca_data:
            self._authority = AuthorityFile(config.ca_file, reloaded)
            config = replace(config, ca_data=self._authority.data)
        self._config = config
        self._files = tuple(path for path in (config.cert_file, config.key_file) if path)
        self._stamp = _stamps(self._files)
        self._context = make_context(config)
        self._check_at = self._checked_at = float("-inf")
        self._certificate: tuple[bytes, bytes] | None = None

    def context(self, now: float, certificate: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
        """`certificate` is one that a credential plugin made: certificate and key as PEM."""
        config, stamp = self._config, self._stamp
        if now >= self._check_at:
            self._check_at, self._checked_at = now + CHECK_SECONDS, now
            stamp = _stamps(self._files)
            if self._authority is not None:
                config = replace(config, ca_data=self._authority.current(now))
        if (config, stamp, certificate) != (self._config, self._stamp, self._certificate):
            try:
                self._context = make_context(config, certificate)
            except ConfigError as error:
                log.error(error, "Unable to reload certificates, keeping the last good ones")
                self._check_at = now + RETRY_SECONDS
            else:
                self._config, self._stamp, self._certificate = config, stamp, certificate
        return self._context

    def failed(self) -> None:
        """A handshake has failed: the next one is made with what is in the files then."""
        self._check_at = min(self._check_at, self._checked_at + RETRY_SECONDS)


class AuthorityFile:
    """Authorities in a file, the last good ones; mirrors client-go's rotation of a CA file.

    Differs: a file that looks changed is read at once, not after up to five minutes.
    """

    def __init__(self, path: str, reloaded: Callable[[str, str], None]) -> None:
        self.data = files.read(path)
        self._path = path
        self._reloaded = reloaded
        self._stamp = _stamps((path,))
        # None before the first check, which is when we get to know the time.
        self._reload_at: float | None = None

    def current(self, now: float) -> bytes:
        stamp = _stamps((self._path,))
        if self._reload_at is None:
            self._reload_at = now + RELOAD_SECONDS
        if self.data and (now >= self._reload_at or stamp != self._stamp):
            self._stamp, self._reload_at = stamp, now + RELOAD_SECONDS
            self._reloaded(*self._reload())
        return self.data

    def _reload(self) -> tuple[str, str]:
        """Read the file again; returns result and reason, as the metric's labels have them."""
        about = {"caFile": self._path}
        log.v(4).info("Checking CA file content", **about)
        try:
            data = files.read(self._path)
        except ConfigError as error:
            log.error(error, "Failed to read CA data from file", **about)
            return "failure", "read_error"
        if not data:
            log.info("CA file empty, skipping transport rotation", **about)
            return "failure", "empty"
        if data == self.data:
            log.v(4).info("CA file unchanged, skipping transport rotation", **about)
            return "success", "unchanged"
        log.v(4).info("CA content changed, updating transport", **about)
        try:
            check_authority(data)
        except ConfigError as error:
            log.error(error, "Failed to parse CA data from file", **about)
            return "failure", "ca_parse_error"
        self.data = data
        log.v(4).info("Transport updated for CA rotation", **about)
        return "success", "updated"


def _stamps(paths: Iterable[str]) -> _Stamp:
    stamps = []
    for path in paths:
        try:
            found = os.stat(path)
        except OSError:
            continue
        stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
    return tuple(stamps)


def make_context(
    config: TlsConfig, certificate: tuple[bytes, bytes] | None = None
) -> ssl.SSLContext:
    """A client context; the failures are client-go's."""
    if config.insecure and (config.ca_file or config.ca_data):
        raise ConfigError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    authority = config.ca_data or (files.read(config.ca_file) if config.ca_file else b"")
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority:
        try:
            _load_authority(context, authority)
        except ConfigError as error:
            raise ConfigError(f"unable to load root certificates: {error}") from error
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if certificate is not None:
        _identify(context, *certificate)
    elif config.has_certificate:
        _identify(
            context,
            config.cert_data or files.read(config.cert_file),
            config.key_data or files.read(config.key_file),
        )
    return context


def check_authority(data: bytes) -> None:
    """Raises unless `data` holds at least one certificate to trust."""
    _load_authority(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), data)


def _load_authority(context: ssl.SSLContext, data: bytes) -> None:
    if b"-----BEGIN" not in data:
        raise ConfigError("unable to parse bytes as PEM block")
    try:
        context.load_verify_locations(cadata=data.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError("data does not contain any valid RSA or ECDSA certificates") from error


def _identify(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    check_pair(certificate, key)
    with as_file(certificate + b"\n" + key) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ConfigError(f"tls: failed to use client certificate: {error.reason}") from error


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """A path under which `data` can be read once; OpenSSL takes keys from files only.

    In memory where the system can: the root file system may be read-only, and a key has no
    business on a disk.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key-pair", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name


class Block(NamedTuple):
    label: str
    has_headers: bool
    content: bytes


def pem_blocks(data: bytes) -> Iterator[Block]:
    """Blocks of a PEM text; those that are not base64 are skipped, and so is other text."""
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


# cryptography takes 25 ms to import, and is needed only where there is a pair to check.


def _certified(block: Block) -> "PublicKeyTypes":
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return x509.load_der_x509_certificate(block.content).public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError("x509: malformed certificate") from error


def _private(block: Block) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        return load_der_private_key(block.content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError("tls: failed to parse private key") from error
