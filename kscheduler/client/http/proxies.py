"""The proxy that the environment names for a server, by the rules of Go's httpproxy.

HTTP_PROXY and HTTPS_PROXY say which, NO_PROXY for whom not; in lower case they come first. Mirrors
what client-go adds as well: CIDRs of an upper-case NO_PROXY count even beside a lower-case one.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult

import msgspec

from kscheduler.errors import ConfigError
from kscheduler.gotext.url import parse_url

PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
IN_CGI = "refusing to use HTTP_PROXY value in CGI environment; see golang.org/s/cgihttpproxy"
# IPv4 addresses written as IPv6 ones are ::ffff:0:0/96.
MAPPED_BITS = 96

_CIDR = re.compile(r"([0-9A-Fa-f.:]+)/([0-9]{1,3})")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def proxy_for(server: SplitResult, environ: Mapping[str, str]) -> str:
    """The URL of a proxy, or nothing; a ConfigError if the one named is not to be trusted."""
    name = f"{server.scheme}_proxy" if server.scheme in ("http", "https") else ""
    proxy = _proxy_url(_either(environ, name)) if name else ""
    if not proxy:
        return ""
    host, port = _ascii(server.hostname or ""), server.port or PORTS[server.scheme]
    address = _address(host)
    upper = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if address is not None and any(
        address in one for one in map(_network, upper.split(",")) if one
    ):
        return ""
    if server.scheme == "http" and environ.get("REQUEST_METHOD"):
        # A web server's child has what a client sends as header "Proxy" in this variable.
        raise ConfigError(IN_CGI)
    if host == "localhost" or (address is not None and address.is_loopback):
        return ""
    rules = _rules(_either(environ, "no_proxy"))
    return "" if any(rule.covers(host.lower(), port, address) for rule in rules) else proxy


class _Rule(msgspec.Struct, frozen=True):
    """One entry of NO_PROXY: all, a network, or a name or suffix; perhaps for one port only."""

    everything: bool = False
    network: Network | None = None
    suffix: str = ""
    with_domain: bool = False
    port: str = ""

    def covers(self, host: str, port: int, address: Address | None) -> bool:
        if self.everything:
            return True
        if self.port not in ("", str(port)):
            return False
        if self.network is not None:
            return address is not None and address in self.network
        if address is not None:
            return False
        return host.endswith(self.suffix) or (self.with_domain and host == self.suffix[1:])


def _rules(no_proxy: str) -> Iterator[_Rule]:
    for entry in no_proxy.split(","):
        entry = entry.strip().lower()
        if entry == "*":
            yield _Rule(everything=True)
        elif (network := _network(entry)) is not None:
            yield _Rule(network=network)
        elif entry:
            host, port = _host_and_port(entry) or (entry, "")
            if (address := _address(host)) is not None and "%" not in host:
                yield _Rule(network=ip_network(address), port=port)
            elif host:
                suffix = _ascii(host.removeprefix("*") if host.startswith("*.") else host)
                is_domain = not suffix.startswith(".")
                yield _Rule(
                    suffix=f".{suffix}" if is_domain else suffix, with_domain=is_domain, port=port
                )


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _proxy_url(text: str) -> str:
    """The URL, "http://" before it if that makes one of it; nothing for what is none at all."""
    is_url = _is_url(text)
    if is_url and (url := parse_url(text)).scheme and url.host:
        return text
    if text and _is_url(f"http://{text}"):
        return f"http://{text}"
    return text if is_url else ""


def _is_url(text: str) -> bool:
    try:
        parse_url(text)
    except ConfigError:
        return False
    return True


def _network(text: str) -> Network | None:
    """An address with the length of its prefix; host bits may be set."""
    found = _CIDR.fullmatch(text)
    try:
        network = ip_network((found[1], int(found[2])), strict=False) if found else None
    except ValueError:
        return None
    if isinstance(network, IPv6Network) and network.prefixlen >= MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ip_network((mapped, network.prefixlen - MAPPED_BITS))
    return network


def _address(text: str) -> Address | None:
    """An IP address without its zone; in its four bytes if it has them."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or IPv6Address(int(address))
    return address


def _host_and_port(text: str) -> tuple[str, str] | None:
    """Host and port as Go's net.SplitHostPort splits them; None where that fails."""
    host, colon, port = text.rpartition(":")
    if text.startswith("["):
        host = host[1:-1] if host.endswith("]") else ""
        return (host, port) if host and not set("[]") & set(host + port) else None
    return (
        (host, port) if colon and not set(":[]") & set(host) and not set("[]") & set(port) else None
    )


def _ascii(host: str) -> str:
    """A name as DNS has it; what cannot be written so stays as it is."""
    bare = host.removeprefix(".")
    try:
        return host if host.isascii() else host.removesuffix(bare) + bare.encode("idna").decode()
    except UnicodeError:
        return host
