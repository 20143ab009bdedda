"""Listening sockets as the flags ask for them: a secure port with its certificate, and plain ones.

Everything that can be wrong with the flags or the machine is found here, before anything is served,
and reported as upstream does. Neither aiohttp nor cryptography is imported for that: they take
0.2 s, and are needed when a client connects.

Plain listeners have neither TLS nor authentication and are off unless asked for. They are for
probes and scrapers that cannot do better, on loopback unless told otherwise. Nothing but health or
metrics is on them, and nothing there can be changed through them.
"""

import datetime
import functools
import os
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.config.options import CertKey, Options
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.strconv import parse_uint, quote
from kscheduler.private_files import ANOTHER_USERS, write_private_file
from kscheduler.serving.tls_flags import (
    curve_names,
    minimum_version,
    openssl_ciphers,
    read_pair,
)

log = logs.logger(__name__)

PAIR_NAME = "kube-scheduler"
LOOPBACK = "127.0.0.1"
SECURE_BACKLOG = 1024
PLAIN_BACKLOG = 128

Pem = tuple[bytes, bytes]  # certificate, key
MakePair = Callable[[], Pem]


class SecurePort(msgspec.Struct, frozen=True):
    """A listener from which nothing is accepted yet, and the terms of its TLS handshakes.

    `pair_files` is None if the pair is made in memory.
    """

    listener: socket.socket
    make_pair: MakePair
    sni_pairs: tuple[tuple[Pem, tuple[str, ...]], ...]
    ciphers: str
    curves: tuple[str, ...]
    min_version: ssl.TLSVersion
    pair_files: CertKey | None = None
    sni_files: tuple[CertKey, ...] = ()

    @property
    def pair(self) -> Pem:
        """Certificate and key, always the same; a self-signed one takes 50 ms at the first call."""
        return self.make_pair()

    @property
    def files(self) -> tuple[str, ...]:
        """All files that certificates and keys are read from."""
        pairs = (*self.sni_files, *([self.pair_files] if self.pair_files else []))
        return tuple(path for pair in pairs for path in (pair.cert_file, pair.key_file))


class PlainListeners(msgspec.Struct, frozen=True):
    health: socket.socket | None
    metrics: socket.socket | None

    def close(self) -> None:
        for listener in (self.health, self.metrics):
            if listener is not None:
                listener.close()


def generate_certificate(options: Options) -> tuple[Options, MakePair | None]:
    """The pair to serve with if none was given: made in memory, or kept in --cert-dir.

    With --cert-dir the options come back naming the files there.
    """

    @functools.cache
    def make_pair() -> Pem:
        from kscheduler.serving.certificate import self_signed

        return self_signed(options.bind_address, now=datetime.datetime.now(datetime.UTC))

    if options.secure_port == 0 or options.tls_cert_file or options.tls_private_key_file:
        return options, None
    if not options.cert_dir:
        # Only announced: it is made when the port is served. Nothing can go wrong with that.
        log.text_info("Generated self-signed cert in-memory")
        return options, make_pair
    stem = os.path.normpath(os.path.join(options.cert_dir, PAIR_NAME))
    named = replace(options, tls_cert_file=f"{stem}.crt", tls_private_key_file=f"{stem}.key")
    pair_files = (named.tls_cert_file, named.tls_private_key_file)
    readable = {path: os.access(path, os.R_OK) for path in pair_files}
    for path in pair_files:
        if any(readable.values()) and not readable[path]:
            raise ConfigError(
                f"error creating self-signed certificates: error reading {path}, "
                "certificate and key must be supplied as a pair"
            )
    if not all(readable.values()):
        _write_pair(named, make_pair())
        log.text_info(
            f"Generated self-signed cert ({named.tls_cert_file}, {named.tls_private_key_file})"
        )
    return named, None


def open_port(options: Options, generated: MakePair | None) -> SecurePort | None:
    """Binds the port; None if it is switched off."""
    if options.secure_port == 0:
        return None
    listener = listen(options)
    try:
        files_given = CertKey(options.tls_cert_file, options.tls_private_key_file)
        return SecurePort(
            listener=listener,
            make_pair=generated or _constantly(read_pair(files_given)),
            ciphers=openssl_ciphers(options.tls_cipher_suites),
            curves=curve_names(options.tls_curve_preferences),
            min_version=minimum_version(options.tls_min_version),
            sni_pairs=tuple(_sni_pair(pair) for pair in options.tls_sni_cert_key),
            pair_files=None if generated else files_given,
            sni_files=options.tls_sni_cert_key,
        )
    except ConfigError:
        listener.close()
        raise


def with_current_files(port: SecurePort) -> SecurePort:
    """A copy of the port with what its files hold now."""
    make_pair = _constantly(read_pair(port.pair_files)) if port.pair_files else port.make_pair
    sni_pairs = tuple(_sni_pair(one) for one in port.sni_files)
    return replace(port, make_pair=make_pair, sni_pairs=sni_pairs)


def _constantly(pair: Pem) -> MakePair:
    return lambda: pair


def _sni_pair(pair: CertKey) -> tuple[Pem, tuple[str, ...]]:
    try:
        return read_pair(pair, "sni-serving-cert"), pair.names
    except ConfigError as err:
        raise ConfigError(f"failed to load SNI cert and key: {err}") from err


def listen(options: Options) -> socket.socket:
    """A listening socket; an unspecified address means both IP families, as in Go."""
    unspecified = ip_address(options.bind_address).is_unspecified
    dual = unspecified and socket.has_dualstack_ipv6()
    host = "::" if dual else options.bind_address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if options.permit_port_sharing:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual))
            listener.bind((host, options.secure_port))
            listener.listen(SECURE_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise _cannot_listen(options.bind_address, options.secure_port, error) from error
    return listener


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigError:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ConfigError(
        f"failed to create listener: failed to listen on {address}: "
        f"listen tcp {address}: bind: {files.reason(error)}"
    )


def open_listeners(options: Options) -> PlainListeners:
    health = _open("health-listen", options.health_listen)
    try:
        return PlainListeners(health, _open("metrics-listen", options.metrics_listen))
    except ConfigError:
        if health is not None:
            health.close()
        raise


def split_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:10251`, `[::1]:10251`, or a port alone for loopback."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        number = parse_uint(port, base=10, bits=16)
        return str(ip_address(host)), number
    except ValueError as error:
        raise ConfigError(f"{quote(host)} is not an IP address") from error


def _open(flag: str, text: str) -> socket.socket | None:
    if not text:
        return None
    try:
        host, port = split_address(text)
    except ConfigError as error:
        raise ConfigError(f"--{flag} {text}: {error}") from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=PLAIN_BACKLOG)
    except OSError as error:
        raise _cannot_listen(host, port, error) from error


def _write_pair(options: Options, pair: Pem) -> None:
    targets = (
        (options.tls_cert_file, pair[0], 0o644),
        (options.tls_private_key_file, pair[1], 0o600),
    )
    try:
        for path, content, mode in targets:
            _make_folder(os.path.dirname(path) or ".")
            write_private_file(Path(path), content, mode)
    except OSError as err:
        why = err.strerror if err.strerror == ANOTHER_USERS else files.reason(err)
        raise ConfigError(
            f"error creating self-signed certificates: open {err.filename}: {why}"
        ) from err


def _make_folder(path: str) -> None:
    """A folder and those above it; the failure names the first that could not be made."""
    if os.path.isdir(path):
        return
    if parent := os.path.dirname(path):
        _make_folder(parent)
    try:
        os.mkdir(path, 0o755)
    except OSError as err:
        problem = "not a directory" if os.path.lexists(path) else files.reason(err)
        raise ConfigError(
            f"error creating self-signed certificates: mkdir {path}: {problem}"
        ) from err
