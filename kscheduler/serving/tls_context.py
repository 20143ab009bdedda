"""TLS contexts of the secure port: certificates by host name, versions, ciphers, callers' ones.

Files and trusted authorities may change while we run; a client that connects afterwards meets the
new ones. If they cannot be loaded, the last good state stays in use.

A server that knows callers by certificate *or* by token must ask for a certificate without judging
it in the handshake: a caller with a foreign or an expired one is to get a 401, and may still have a
good token. Python's `ssl` can only judge, so the judge is replaced here, by a call into OpenSSL;
possession of the key is proved in the handshake all the same, and `client_certificate` judges the
rest. Where the interpreter's OpenSSL cannot be reached (it may be linked into it, its symbols
hidden), certificates are judged in the handshake.
"""

from __future__ import annotations

import ctypes
import ssl
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from kscheduler import logs
from kscheduler.client.tls import as_file
from kscheduler.errors import ConfigError
from kscheduler.serving.access_metrics import Upkeep
from kscheduler.serving.listeners import Pem, SecurePort, with_current_files
from kscheduler.serving.trust import CHECK_SECONDS, Trust, file_stamp

log = logs.logger(__name__)

_Stamps = tuple[tuple[int, int, int] | None, ...]


class TlsContexts:
    """The TLS context for the next client, renewed when its files or authorities change."""

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

    def certificate(self, now: float) -> bytes:
        """The chain in PEM that the next client is shown, unless it names a host of its own."""
        self.current(now)
        return self._port.pair[0]

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
    # Of two pairs for one name the first wins, and given names win over those in certificates.
    found: dict[str, ssl.SSLContext] = {}
    given: dict[str, ssl.SSLContext] = {}
    for pair, names in reversed(port.sni_pairs):
        context = _context(port, pair, authorities)
        if names:
            given |= dict.fromkeys(names, context)
        else:
            found |= dict.fromkeys(_names_in(pair), context)
    by_name = found | given

    def choose(
        connection: ssl.SSLSocket | ssl.SSLObject, host: str | None, _: ssl.SSLContext
    ) -> None:
        name = (host or "").lower().rstrip(".")
        wildcard = "*." + name.partition(".")[2]
        chosen = by_name.get(name) or by_name.get(wildcard)
        if chosen is not None:
            connection.context = chosen

    if by_name:
        main.sni_callback = choose
    return main


def _context(port: SecurePort, pair: Pem, authorities: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = port.min_version
    speak_http_1_1(context)
    remember_no_sessions(context)
    if authorities is not None:
        ask_without_judging(context, authorities)
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


_VERIFY_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ALPN_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_ubyte),
    ctypes.c_void_p,
    ctypes.c_uint,
    ctypes.c_void_p,
)
_CHOSEN, _FATAL = 0, 2
_SET_SESSION_CACHE_MODE = 44
_NO_SESSION_CACHE = 0


# Every chain passes the handshake; `client_certificate` verifies it afterwards.
_accept = _VERIFY_CALLBACK(lambda chain, argument: 1)

HTTP_1_1 = b"http/1.1"
_http_1_1 = ctypes.create_string_buffer(HTTP_1_1)


def _choose_http_1_1(
    connection: int | None, out: Any, length: Any, offered: int, size: int, argument: int | None
) -> int:
    """The client's list is of names, each behind its length."""
    names = ctypes.string_at(offered, size)
    if bytes([len(HTTP_1_1)]) + HTTP_1_1 not in names:
        return _FATAL
    out[0] = ctypes.addressof(_http_1_1)
    length[0] = len(HTTP_1_1)
    return _CHOSEN


_choose = _ALPN_CALLBACK(_choose_http_1_1)


def speak_http_1_1(context: ssl.SSLContext) -> None:
    """Clients that offer protocols, but not this one, are turned away, as by Go's server."""
    context.set_alpn_protocols([HTTP_1_1.decode()])
    library = _library()
    if library is not None:
        library.SSL_CTX_set_alpn_select_cb(_address(context), _choose, None)


def ask_without_judging(context: ssl.SSLContext, authorities: bytes) -> None:
    """Clients are asked for a certificate of these authorities (PEM); any, and none, will do."""
    context.verify_mode = ssl.CERT_OPTIONAL
    library = _library()
    if library is None:
        context.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
        return
    address = _address(context)
    library.SSL_CTX_set_cert_verify_callback(address, _accept, None)
    if authorities:
        with as_file(authorities) as path:
            names = library.SSL_load_client_CA_file(path.encode())
        library.SSL_CTX_set_client_CA_list(address, names)


def remember_no_sessions(context: ssl.SSLContext) -> None:
    """Every connection proves itself anew: a resumed one would not show the caller's whole chain.

    It also means that clients that come and go take up no memory afterwards.
    """
    library = _library()
    if library is not None:
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        library.SSL_CTX_ctrl(_address(context), _SET_SESSION_CACHE_MODE, _NO_SESSION_CACHE, None)


def _address(context: ssl.SSLContext) -> int:
    """The address of OpenSSL's own context: the first member of CPython's."""
    return ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value or 0


@cache
def _library() -> ctypes.CDLL | None:
    """The OpenSSL that `ssl` uses, if it answers for a context as `ssl` does."""
    import _ssl

    try:
        library = ctypes.CDLL(_ssl.__file__)
        library.SSL_CTX_get_options.argtypes = (ctypes.c_void_p,)
        library.SSL_CTX_get_options.restype = ctypes.c_uint64
        library.SSL_CTX_set_cert_verify_callback.argtypes = (
            ctypes.c_void_p,
            _VERIFY_CALLBACK,
            ctypes.c_void_p,
        )
        library.SSL_CTX_set_cert_verify_callback.restype = None
        library.SSL_load_client_CA_file.argtypes = (ctypes.c_char_p,)
        library.SSL_load_client_CA_file.restype = ctypes.c_void_p
        library.SSL_CTX_set_client_CA_list.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        library.SSL_CTX_set_client_CA_list.restype = None
        library.SSL_CTX_set_alpn_select_cb.argtypes = (
            ctypes.c_void_p,
            _ALPN_CALLBACK,
            ctypes.c_void_p,
        )
        library.SSL_CTX_set_alpn_select_cb.restype = None
        library.SSL_CTX_ctrl.argtypes = (
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_long,
            ctypes.c_void_p,
        )
        library.SSL_CTX_ctrl.restype = ctypes.c_long
    except (AttributeError, OSError):
        return None
    probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    probe.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if library.SSL_CTX_get_options(_address(probe)) != int(probe.options) & (2**64 - 1):
        return None
    return library
