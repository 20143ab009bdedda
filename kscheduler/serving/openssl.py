"""What OpenSSL offers a server and Python's `ssl` does not pass on.

A server that knows callers by certificate *or* by token must ask for a certificate without judging
it in the handshake: whoever brings a foreign or an expired one is to be told 401, and may still
have a good token. Python's `ssl` can only judge, so the judge is replaced here; possession of the
key is proved in the handshake all the same, and `client_certificate` judges the rest.

Where the interpreter's OpenSSL cannot be reached (it may be linked into it, its symbols hidden),
nothing here applies: certificates are then judged in the handshake.
"""

from __future__ import annotations

import ctypes
import ssl
from functools import cache
from typing import Any

from kscheduler.client.tls import as_file

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


def _yes(chain: int | None, argument: int | None) -> int:
    return 1


_accept = _VERIFY_CALLBACK(_yes)

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
    """Whoever offers protocols, but not this one, is turned away, as Go's server does."""
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

    It also means that clients who come and go leave nothing behind in our memory.
    """
    library = _library()
    if library is not None:
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        library.SSL_CTX_ctrl(_address(context), _SET_SESSION_CACHE_MODE, _NO_SESSION_CACHE, None)


def _address(context: ssl.SSLContext) -> int:
    """Where OpenSSL's own context is: the first member of CPython's."""
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
