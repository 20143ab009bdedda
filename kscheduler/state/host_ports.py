"""Host ports in use, node by node.

A node's ports are a set, as upstream keeps them: if two pods on a node hold the same port, the
first to leave frees it. A pod may hold thousands of addresses of one port, so nothing here is done
for all addresses of a port each time one of them changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import NamedTuple

ANY_IP = "0.0.0.0"
TCP = "TCP"


class HostPort(NamedTuple):
    """A port of the node itself; an empty IP or protocol was already replaced by its default."""

    ip: str
    protocol: str
    port: int


def any_ports_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether two of them cannot be on one node: `0.0.0.0` collides with every address.

    In one pass over each side.
    """
    ports = HostPorts()
    for port in used:
        ports.add(port, 0)
    return any(map(ports.conflicting, wanted))


class _Uses:
    """Rows, as bits, that use one port of one protocol: by address, and with any address."""

    __slots__ = ("any_ip", "by_ip")

    def __init__(self, by_ip: dict[str, int], any_ip: int | None) -> None:
        self.by_ip = by_ip
        # None if it has to be worked out from `by_ip`.
        self.any_ip = any_ip

    def rows(self) -> int:
        if self.any_ip is None:
            self.any_ip = reduce(or_, self.by_ip.values(), 0)
        return self.any_ip


_NO_USES = _Uses({}, 0)


class HostPorts:
    def __init__(self, base: HostPorts | None = None) -> None:
        """`base`: whose ports these are, but for what is added and removed here."""
        self._base = base
        # By (protocol, port). Of a base's ports only those that were changed here.
        self._uses: dict[tuple[str, int], _Uses] = {}

    def what_if(self) -> HostPorts:
        """A copy that can be changed without changing these; good while these do not change."""
        return HostPorts(self)

    def add(self, port: HostPort, row: int) -> None:
        uses, bit = self._writable((port.protocol, port.port)), 1 << row
        uses.by_ip[port.ip] = uses.by_ip.get(port.ip, 0) | bit
        if uses.any_ip is not None:
            uses.any_ip |= bit

    def remove(self, port: HostPort, row: int) -> None:
        key = (port.protocol, port.port)
        bit = 1 << row
        rows = self._find(key).by_ip.get(port.ip, 0)
        if not rows & bit:
            return
        uses = self._writable(key)
        uses.any_ip = None
        if rows := rows ^ bit:
            uses.by_ip[port.ip] = rows
            return
        del uses.by_ip[port.ip]
        # In a what-if, an entry without rows hides the base's.
        if not uses.by_ip and self._base is None:
            del self._uses[key]

    def conflicting(self, wanted: HostPort) -> int:
        """The rows, as bits, whose ports conflict with this one."""
        uses = self._find((wanted.protocol, wanted.port))
        if wanted.ip == ANY_IP:
            return uses.rows()
        return uses.by_ip.get(wanted.ip, 0) | uses.by_ip.get(ANY_IP, 0)

    def _find(self, key: tuple[str, int]) -> _Uses:
        found = self._uses.get(key)
        if found is not None:
            return found
        return self._base._find(key) if self._base is not None else _NO_USES

    def _writable(self, key: tuple[str, int]) -> _Uses:
        """Copied from the base at most once, whatever number of its addresses change."""
        uses = self._uses.get(key)
        if uses is None:
            known = self._find(key)
            uses = self._uses[key] = _Uses(known.by_ip.copy(), known.any_ip)
        return uses
