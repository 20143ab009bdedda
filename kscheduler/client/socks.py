"""SOCKS5 (RFC 1928, passwords by RFC 1929), as far as a client that wants to go on needs it."""

import asyncio
import socket
from ipaddress import IPv4Address, ip_address

VERSION, CONNECT, RESERVED = 5, 1, 0
NO_AUTHENTICATION, PASSWORD, NOTHING_ACCEPTABLE = 0, 2, 0xFF
PASSWORD_VERSION = 1
IPV4, NAME, IPV6 = 1, 3, 4
ADDRESS_BYTES = {IPV4: 4, IPV6: 16}
PORT_BYTES = 2
REPLIES = (
    "succeeded",
    "general SOCKS server failure",
    "connection not allowed by ruleset",
    "network unreachable",
    "host unreachable",
    "connection refused",
    "TTL expired",
    "command not supported",
    "address type not supported",
)


class SocksError(Exception):
    """The proxy does not let us through; the text is Go's."""


async def go_through(
    proxy: socket.socket, host: str, port: int, login: tuple[str, str] | None
) -> None:
    """Has the proxy connect this socket to a server, whose name the proxy looks up."""
    methods = [NO_AUTHENTICATION] if login is None else [NO_AUTHENTICATION, PASSWORD]
    await _send(proxy, [VERSION, len(methods), *methods])
    version, method = await _receive(proxy, 2)
    _check_version(version)
    if method == NOTHING_ACCEPTABLE:
        raise SocksError("no acceptable authentication methods")
    if login is not None and method != NO_AUTHENTICATION:
        await _log_in(proxy, method, *login)
    await _send(proxy, [VERSION, CONNECT, RESERVED, *_destination(host), *port.to_bytes(2)])
    version, reply, reserved, kind = await _receive(proxy, 4)
    _check_version(version)
    if reply:
        told = REPLIES[reply] if reply < len(REPLIES) else f"unknown code: {reply}"
        raise SocksError(f"unknown error {told}")
    if reserved:
        raise SocksError("non-zero reserved field")
    if kind != NAME and kind not in ADDRESS_BYTES:
        raise SocksError(f"unknown address type {kind}")
    size = ADDRESS_BYTES[kind] if kind != NAME else (await _receive(proxy, 1))[0]
    await _receive(proxy, size + PORT_BYTES)


async def _log_in(proxy: socket.socket, method: int, user: str, password: str) -> None:
    if method != PASSWORD:
        raise SocksError(f"unsupported authentication method {method}")
    name, word = user.encode(), password.encode()
    if not 0 < len(name) < 256 or len(word) > 255:
        raise SocksError("invalid username/password")
    await _send(proxy, [PASSWORD_VERSION, len(name), *name, len(word), *word])
    version, status = await _receive(proxy, 2)
    if version != PASSWORD_VERSION:
        raise SocksError("invalid username/password version")
    if status:
        raise SocksError("username/password authentication failed")


def _destination(host: str) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode()
        if len(name) > 255:
            raise SocksError("FQDN too long") from None
        return bytes([NAME, len(name)]) + name
    return bytes([IPV4 if isinstance(address, IPv4Address) else IPV6]) + address.packed


def _check_version(version: int) -> None:
    if version != VERSION:
        raise SocksError(f"unexpected protocol version {version}")


async def _send(proxy: socket.socket, data: list[int]) -> None:
    await asyncio.get_running_loop().sock_sendall(proxy, bytes(data))


async def _receive(proxy: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = await asyncio.get_running_loop().sock_recv(proxy, size - len(received))
        if not piece:
            raise SocksError("unexpected EOF" if received else "EOF")
        received += piece
    return received
