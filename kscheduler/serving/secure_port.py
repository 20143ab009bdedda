"""The secure port as its flags ask for it: a certificate, a bound listener, limits for TLS.

Everything that can be wrong with the flags or the machine is found here, before anything is served,
and told as upstream tells it.
"""

import datetime
import os
import socket
import ssl
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from kscheduler import logs
from kscheduler.config.options import CertKey, Options
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.private_files import ANOTHER_USERS, write_private_file
from kscheduler.serving.certificate import self_signed
from kscheduler.serving.tls_flags import (
    curve_names,
    minimum_version,
    openssl_ciphers,
    read_pair,
)

log = logs.logger(__name__)

PAIR_NAME = "kube-scheduler"
BACKLOG = 1024

Pem = tuple[bytes, bytes]  # certificate, key


@dataclass(frozen=True, slots=True)
class SecurePort:
    """A listener that nobody accepts from yet, and how to greet who connects.

    `pair_files` is None if the pair was made in memory.
    """

    listener: socket.socket
    pair: Pem
    sni_pairs: tuple[tuple[Pem, tuple[str, ...]], ...]
    ciphers: str
    curves: tuple[str, ...]
    min_version: ssl.TLSVersion
    pair_files: CertKey | None = None
    sni_files: tuple[CertKey, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """All that certificates and keys are read from."""
        pairs = (*self.sni_files, *([self.pair_files] if self.pair_files else []))
        return tuple(path for pair in pairs for path in (pair.cert_file, pair.key_file))


def generate_certificate(options: Options) -> tuple[Options, Pem | None]:
    """The pair to serve with if none was given: made in memory, or kept in --cert-dir.

    With --cert-dir the options come back naming the files there.
    """
    if options.secure_port == 0 or options.tls_cert_file or options.tls_private_key_file:
        return options, None
    if not options.cert_dir:
        pair = _self_signed(options)
        log.text_info("Generated self-signed cert in-memory")
        return options, pair
    stem = os.path.normpath(os.path.join(options.cert_dir, PAIR_NAME))
    named = replace(options, tls_cert_file=f"{stem}.crt", tls_private_key_file=f"{stem}.key")
    if not _both_readable(named.tls_cert_file, named.tls_private_key_file):
        _write_pair(named, _self_signed(options))
        log.text_info(
            f"Generated self-signed cert ({named.tls_cert_file}, {named.tls_private_key_file})"
        )
    return named, None


def open_port(options: Options, generated: Pem | None) -> SecurePort | None:
    """Binds the port; None if it is switched off."""
    if options.secure_port == 0:
        return None
    listener = listen(options)
    try:
        return _secure_port(options, listener, generated)
    except ConfigError:
        listener.close()
        raise


def _secure_port(options: Options, listener: socket.socket, generated: Pem | None) -> SecurePort:
    files_given = CertKey(options.tls_cert_file, options.tls_private_key_file)
    return SecurePort(
        listener=listener,
        pair=generated or read_pair(files_given),
        ciphers=openssl_ciphers(options.tls_cipher_suites),
        curves=curve_names(options.tls_curve_preferences),
        min_version=minimum_version(options.tls_min_version),
        sni_pairs=tuple(_sni_pair(pair) for pair in options.tls_sni_cert_key),
        pair_files=None if generated else files_given,
        sni_files=options.tls_sni_cert_key,
    )


def with_current_files(port: SecurePort) -> SecurePort:
    """The same port with what its files hold now."""
    pair = read_pair(port.pair_files) if port.pair_files else port.pair
    return replace(port, pair=pair, sni_pairs=tuple(_sni_pair(one) for one in port.sni_files))


def _sni_pair(pair: CertKey) -> tuple[Pem, tuple[str, ...]]:
    try:
        return read_pair(pair, "sni-serving-cert"), pair.names
    except ConfigError as err:
        raise ConfigError(f"failed to load SNI cert and key: {err}") from err


def listen(options: Options) -> socket.socket:
    """A listening socket; an unspecified address means both IP families, as in Go."""
    host, port = options.bind_address, options.secure_port
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        return _bound(options)
    except OSError as err:
        raise ConfigError(
            f"failed to create listener: failed to listen on {address}: "
            f"listen tcp {address}: bind: {files.reason(err)}"
        ) from err


def _bound(options: Options) -> socket.socket:
    unspecified = ip_address(options.bind_address).is_unspecified
    dual = unspecified and socket.has_dualstack_ipv6()
    host = "::" if dual else options.bind_address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.permit_port_sharing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual))
        listener.bind((host, options.secure_port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _self_signed(options: Options) -> Pem:
    return self_signed(options.bind_address, now=datetime.datetime.now(datetime.UTC))


def _both_readable(cert_file: str, key_file: str) -> bool:
    readable = {path: os.access(path, os.R_OK) for path in (cert_file, key_file)}
    for path in (cert_file, key_file):
        if any(readable.values()) and not readable[path]:
            raise ConfigError(
                f"error creating self-signed certificates: error reading {path}, "
                "certificate and key must be supplied as a pair"
            )
    return all(readable.values())


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
