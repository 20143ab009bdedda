"""Host ports in use, node by node.

A node's ports are a set, as upstream keeps them: if two pods on a node hold the same port, the
first to leave frees it.
"""

from __future__ import annotations

from typing import NamedTuple

ANY_IP = "0.0.0.0"
TCP = "TCP"


class HostPort(NamedTuple):
    """A port of the node itself; an empty IP or protocol was already replaced by its default."""

    ip: str
    protocol: str
    port: int


def ports_conflict(wanted: HostPort, used: HostPort) -> bool:
    """Whether both cannot be on one node: `0.0.0.0` collides with every address."""
    if (wanted.protocol, wanted.port) != (used.protocol, used.port):
        return False
    return wanted.ip == used.ip or ANY_IP in (wanted.ip, used.ip)


class HostPorts:
    def __init__(self) -> None:
        # (protocol, port) → ip → rows as bits. The inner dicts are replaced, never changed, so a
        # copy may share them.
        self._ports: dict[tuple[str, int], dict[str, int]] = {}

    def copy(self) -> HostPorts:
        twin = HostPorts()
        twin._ports = self._ports.copy()
        return twin

    def add(self, port: HostPort, row: int) -> None:
        key = (port.protocol, port.port)
        ips = self._ports.get(key, {})
        self._ports[key] = {**ips, port.ip: ips.get(port.ip, 0) | 1 << row}

    def remove(self, port: HostPort, row: int) -> None:
        key = (port.protocol, port.port)
        ips = dict(self._ports.get(key, {}))
        rows = ips.pop(port.ip, 0) & ~(1 << row)
        if rows:
            ips[port.ip] = rows
        if ips:
            self._ports[key] = ips
        else:
            self._ports.pop(key, None)

    def conflicting(self, wanted: HostPort) -> int:
        """The rows, as bits, whose ports conflict with this one."""
        ips = self._ports.get((wanted.protocol, wanted.port))
        if ips is None:
            return 0
        if wanted.ip != ANY_IP:
            return ips.get(wanted.ip, 0) | ips.get(ANY_IP, 0)
        rows = 0
        for used in ips.values():
            rows |= used
        return rows
