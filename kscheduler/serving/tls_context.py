"""How to greet a TLS client: certificates by host name, versions, ciphers, whom to ask for one.

Files and trusted authorities may change while we run; whoever connects afterwards meets the new
ones. What cannot be loaded leaves the last good state in use.
"""

from __future__ import annotations

import ssl

from cryptography import x509
from cryptography.x509.oid import NameOID

from kscheduler import logs
from kscheduler.client.tls import as_file
from kscheduler.errors import ConfigError
from kscheduler.serving import openssl
from kscheduler.serving.access_metrics import Upkeep
from kscheduler.serving.listeners import Pem, SecurePort, with_current_files
from kscheduler.serving.trust import CHECK_SECONDS, Trust, file_stamp

log = logs.logger(__name__)

_Stamps = tuple[tuple[int, int, int] | None, ...]


class TlsContexts:
    """The context for who connects now."""

    def __init__(self, port: SecurePort, trust: Trust, upkeep: Upkeep) -> None:
        self._port = port
        self._trust = trust
        self._upkeep = upkeep
        self._stamps = self._seen()
        self._authorities = trust.authorities(0.0)
        self._context = context_for(port, self._asked_of)
        self._check_at = 0.0

    def current(self, now: float) -> ssl.SSLContext:
        if now >= self._check_at:
            self._check_at = now + CHECK_SECONDS
            stamps, authorities = self._seen(), self._trust.authorities(now)
            if (stamps, authorities) != (self._stamps, self._authorities):
                self._stamps, self._authorities = stamps, authorities
                self._upkeep(self._renew)
        return self._context

    @property
    def _asked_of(self) -> bytes | None:
        return self._authorities if self._trust.asks else None

    def _renew(self) -> None:
        try:
            port = with_current_files(self._port)
            self._context = context_for(port, self._asked_of)
        except (ConfigError, ssl.SSLError) as error:
            log.error(error, "Unable to load new serving certificates, keeping the last")
            return
        self._port = port
        log.v(2).info("Loaded a new cert/key pair")

    def _seen(self) -> _Stamps:
        return tuple(map(file_stamp, self._port.files))


def context_for(port: SecurePort, authorities: bytes | None = None) -> ssl.SSLContext:
    """The context of the port; a client that names a host gets the certificate made for it.

    Clients are asked for a certificate of `authorities` (PEM) unless it is None.
    """
    main = _context(port, port.pair, authorities)
    by_name = _contexts_by_name(port, authorities)

    def choose(
        connection: ssl.SSLSocket | ssl.SSLObject, host: str | None, _: ssl.SSLContext
    ) -> None:
        name = (host or "").lower().rstrip(".")
        chosen = by_name.get(name) or by_name.get(_wildcard(name))
        if chosen is not None:
            connection.context = chosen

    if by_name:
        main.sni_callback = choose
    return main


def _contexts_by_name(port: SecurePort, authorities: bytes | None) -> dict[str, ssl.SSLContext]:
    """Of two pairs for one name the first wins, and given names win over those in certificates."""
    found: dict[str, ssl.SSLContext] = {}
    given: dict[str, ssl.SSLContext] = {}
    for pair, names in reversed(port.sni_pairs):
        context = _context(port, pair, authorities)
        if names:
            given |= dict.fromkeys(names, context)
        else:
            found |= dict.fromkeys(_names_in(pair), context)
    return found | given


def _context(port: SecurePort, pair: Pem, authorities: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = port.min_version
    openssl.speak_http_1_1(context)
    openssl.remember_no_sessions(context)
    if authorities is not None:
        openssl.ask_without_judging(context, authorities)
    if port.ciphers:
        context.set_ciphers(port.ciphers)
    if len(port.curves) == 1:
        # Python takes one curve; of several, the library's own choice stands.
        context.set_ecdh_curve(port.curves[0])
    certificate, key = pair
    with as_file(key + b"\n" + certificate) as path:
        context.load_cert_chain(path)
    return context


def _names_in(pair: Pem) -> list[str]:
    """Its DNS names, and its common name; addresses do not count."""
    certificate = x509.load_pem_x509_certificate(pair[0])
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names = [str(attribute.value) for attribute in common]
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return names
    return names + extension.value.get_values_for_type(x509.DNSName)


def _wildcard(host: str) -> str:
    return "*." + host.partition(".")[2]
