"""Listeners without TLS and without questions, for health and for metrics; off unless asked for.

They are for probes and scrapers that cannot do better, on loopback unless told otherwise. Nothing
but health or metrics is on them, and nothing there can be changed through them.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp import web

from kscheduler.config.options import Options
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.strconv import parse_uint, quote
from kscheduler.serving import answers
from kscheduler.serving.answers import Handler

LOOPBACK = "127.0.0.1"
READING = ("GET", "HEAD")
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class PlainListeners:
    health: socket.socket | None
    metrics: socket.socket | None

    def close(self) -> None:
        for listener in (self.health, self.metrics):
            if listener is not None:
                listener.close()


def open_listeners(options: Options) -> PlainListeners:
    health = _open("health-listen", options.health_listen)
    try:
        return PlainListeners(health, _open("metrics-listen", options.metrics_listen))
    except ConfigError:
        if health is not None:
            health.close()
        raise


def read_only(handler: Handler) -> Handler:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.method in READING:
            return await handler(request)
        return answers.text("405 method not allowed\n", status=405)

    return answer


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
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"failed to create listener: failed to listen on {shown}: "
            f"listen tcp {shown}: bind: {files.reason(error)}"
        ) from error
