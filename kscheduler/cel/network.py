"""IP addresses, CIDR blocks and URLs in expressions.

Mirrors net/netip and net/url as Kubernetes' libraries use them: no zones, no IPv4-mapped
addresses.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import unquote_to_bytes

from kscheduler.cel import types
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.values import Opaque, Value, register
from kscheduler.gotext.strconv import quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@register
class IP(Opaque):
    """An IP address."""

    __slots__ = ("address", "size")
    celtype = types.IP
    go_name = "cel.IP"

    def __init__(self, address: Address) -> None:
        self.address = address
        self.size = address.max_prefixlen // 8

    def equals(self, other: Value) -> bool:
        if type(other) is not IP:
            raise no_such_overload()
        return self.address == other.address

    def __str__(self) -> str:
        return address_text(self.address)

    def property(self, function: str) -> bool:
        """Answers of isLoopback, isGlobalUnicast and so on."""
        address = self.address
        match function:
            case "isUnspecified":
                return address.is_unspecified
            case "isLoopback":
                return address.is_loopback
            case "isLinkLocalUnicast":
                return address.is_link_local
            case "isLinkLocalMulticast":
                network = "224.0.0.0/24" if address.version == 4 else None
                if network:
                    return address in ipaddress.ip_network(network)
                first = int(address) >> 112
                return first & 0xFF0F == 0xFF02
        if address.version == 4 and int(address) in (0, 0xFFFFFFFF):
            return False
        special = address.is_unspecified or address.is_loopback or address.is_multicast
        return not special and not address.is_link_local


@register
class CIDR(Opaque):
    """An address with a prefix length; host bits are kept."""

    __slots__ = ("address", "bits", "size")
    celtype = types.CIDR
    go_name = "cel.CIDR"

    def __init__(self, address: Address, bits: int) -> None:
        self.address = address
        self.bits = bits
        self.size = -(-bits // 8)

    def equals(self, other: Value) -> bool:
        if type(other) is not CIDR:
            raise no_such_overload()
        return (self.address, self.bits) == (other.address, other.bits)

    def __str__(self) -> str:
        return f"{address_text(self.address)}/{self.bits}"

    def contains(self, address: Address, bits: int) -> bool:
        """Whether the block of the address and length lies within this one."""
        if address.version != self.address.version or bits < self.bits:
            return False
        shift = self.address.max_prefixlen - self.bits
        return int(address) >> shift == int(self.address) >> shift

    def masked(self) -> CIDR:
        shift = self.address.max_prefixlen - self.bits
        return CIDR(type(self.address)(int(self.address) >> shift << shift), self.bits)


def address_text(address: Address) -> str:
    """The canonical text."""
    return str(address)


def parse_ip(text: str) -> IP:
    """The address of a text; raises EvaluationError."""
    problem, address, zone = _address(text)
    if address is None:
        where = f"IP Address {quote(text)} parse error during conversion from string"
        raise EvaluationError(f"{where}: ParseAddr({quote(text)}): {problem}")
    if zone:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def _is_mapped(address: Address) -> bool:
    return address.version == 6 and int(address) >> 32 == 0xFFFF


def _address(text: str) -> tuple[str, Address | None, str]:
    """Why the text is no address, the address if it is one, and its zone."""
    for char in text:
        if char == ".":
            problem, value = _ipv4(text)
            return problem, None if problem else ipaddress.IPv4Address(value), ""
        if char == ":":
            return _ipv6(text)
        if char == "%":
            return "missing IPv6 address", None, ""
    return "unable to parse IP", None, ""


def _ipv4(text: str) -> tuple[str, int]:
    fields: list[int] = []
    value, digits = 0, 0
    for index, char in enumerate(text):
        if char.isascii() and char.isdigit():
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero", 0
            value = value * 10 + int(char)
            digits += 1
            if value > 255:
                return "IPv4 field has value >255", 0
        elif char == ".":
            if index == 0 or index == len(text) - 1 or text[index - 1] == ".":
                return f"IPv4 field must have at least one digit (at {quote(text[index:])})", 0
            if len(fields) == 3:
                return "IPv4 address too long", 0
            fields.append(value)
            value, digits = 0, 0
        else:
            return f"unexpected character (at {quote(text[index:])})", 0
    if len(fields) < 3:
        return "IPv4 address too short", 0
    result = 0
    for field in (*fields, value):
        result = result << 8 | field
    return "", result


def _ipv6(text: str) -> tuple[str, Address | None, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string", None, ""
    groups: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis = 0
        rest = rest[2:]
        if not rest:
            return "", ipaddress.IPv6Address(0), zone
    while len(groups) < 8:
        found = re.match(r"[0-9a-fA-F]*", rest)
        digits = found.group() if found else ""
        if len(digits) > 4:
            # An address of IPv4 may stand for the last two groups.
            reason = "each group must have 4 or fewer digits"
            return f"{reason} (at {quote(rest)})", None, ""
        if not digits:
            where = f"at {quote(rest)}"
            return f"each colon-separated field must have at least one digit ({where})", None, ""
        if rest[len(digits) : len(digits) + 1] == ".":
            reason = ""
            if ellipsis < 0 and len(groups) != 6:
                reason = "embedded IPv4 address must replace the final 2 fields of the address"
            elif len(groups) > 6:
                reason = "too many hex fields to fit an embedded IPv4 at the end of the address"
            if reason:
                return f"{reason} (at {quote(rest)})", None, ""
            problem, value = _ipv4(rest)
            if problem:
                return problem, None, ""
            groups += [value >> 16, value & 0xFFFF]
            rest = ""
            break
        groups.append(int(digits, 16))
        rest = rest[len(digits) :]
        if not rest:
            break
        if rest[0] != ":":
            return f"unexpected character, want colon (at {quote(rest)})", None, ""
        if len(rest) == 1:
            return f"colon must be followed by more characters (at {quote(rest)})", None, ""
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                return f"multiple :: in address (at {quote(rest)})", None, ""
            ellipsis = len(groups)
            rest = rest[1:]
            if not rest:
                break
    if rest:
        return f"trailing garbage after address (at {quote(rest)})", None, ""
    if len(groups) < 8:
        if ellipsis < 0:
            return "address string too short", None, ""
        groups[ellipsis:ellipsis] = [0] * (8 - len(groups))
    elif ellipsis >= 0:
        return "the :: must expand to at least one field of zeros", None, ""
    result = 0
    for group in groups:
        result = result << 16 | group
    return "", ipaddress.IPv6Address(result), zone


def parse_cidr(text: str) -> CIDR:
    """The block of a text; raises EvaluationError."""
    outer = "network address parse error during conversion from string"
    prefix = f"{outer}: netip.ParsePrefix({quote(text)})"
    address_part, slash, bits_part = text.rpartition("/")
    if not slash:
        raise EvaluationError(f"{outer}: {prefix}: no '/'")
    problem, address, zone = _address(address_part)
    if address is None:
        inner = f"ParseAddr({quote(address_part)}): {problem}"
        raise EvaluationError(f"{outer}: {prefix}: {inner}")
    if zone:
        reason = "IPv6 zones cannot be present in a prefix"
        raise EvaluationError(f"{outer}: {prefix}: {reason}")
    if not re.fullmatch(r"0|[1-9][0-9]*", bits_part, re.ASCII):
        raise EvaluationError(f"{outer}: {prefix}: bad bits after slash: {quote(bits_part)}")
    if len(bits_part) > 3 or int(bits_part) > address.max_prefixlen:
        reason = "prefix length out of range"
        raise EvaluationError(f"{outer}: {prefix}: {reason}")
    if _is_mapped(address):
        raise EvaluationError(f"{outer}: IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(address, int(bits_part))


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):", re.ASCII)


@register
class URL(Opaque):
    """An absolute URL or an absolute path, in the parts that Go's url.URL has."""

    __slots__ = ("host", "path", "query", "scheme", "text")
    celtype = types.URL
    go_name = "cel.URL"

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text = text
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query

    def equals(self, other: Value) -> bool:
        if type(other) is not URL:
            raise no_such_overload()
        return self.text == other.text

    def __str__(self) -> str:
        return self.text

    def host_name(self) -> str:
        host = self._without_port()
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    def port(self) -> str:
        host = self._without_port()
        return self.host[len(host) + 1 :]

    def _without_port(self) -> str:
        colon = self.host.rfind(":")
        if colon < 0 or "]" in self.host[colon:]:
            return self.host
        return self.host[:colon]

    def parameters(self) -> dict[str, list[str]]:
        """The query's values by key; a pair with a bad escape is left out."""
        result: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            if not pair or ";" in pair:
                continue
            key, _, value = pair.partition("=")
            if _bad_escape(key) or _bad_escape(value):
                continue
            result.setdefault(_unescape(key), []).append(_unescape(value))
        return result


def _bad_escape(text: str) -> str:
    """The first malformed percent escape, or nothing."""
    found = re.search(r"%(?![0-9a-fA-F]{2}).{0,2}", text, re.DOTALL)
    return found.group() if found else ""


def _unescape(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def parse_url(text: str) -> URL:
    """The URL of a text, by the rules of a request URI; raises EvaluationError."""
    problem = _url_problem(text)
    if isinstance(problem, str):
        where = "URL parse error during conversion from string"
        raise EvaluationError(f"{where}: parse {quote(text)}: {problem}")
    return problem


def _url_problem(text: str) -> URL | str:
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        return "net/url: invalid control character in URL"
    if not text:
        return "empty url"
    if text == "*":
        return URL(text, "", "", "*", "")
    if text[0] == ":":
        return "missing protocol scheme"
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest = text[found.end() :] if found else text
    # A request URI has no fragment; reading it again as a URL cuts one off.
    rest_without_fragment = rest.partition("#")[0]
    before, _, query = rest.partition("?")
    if not before.startswith("/"):
        if scheme:
            shown = rest_without_fragment.partition("?")
            return URL(text, scheme, "", "", shown[2])
        return "invalid URI for request"
    rest = before
    host = ""
    if (scheme or not rest.startswith("///")) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        problem, host = _host(authority)
        if problem:
            return problem
    if bad := _bad_escape(rest):
        return f"invalid URL escape {quote(bad)}"
    if "#" in text:
        cut = text.partition("#")[0]
        again = _url_problem(cut) if cut else URL(text, "", "", "", "")
        if isinstance(again, str):
            return again
        return URL(text, again.scheme, again.host, again.path, again.query)
    return URL(text, scheme, host, _escaped_path(rest), query)


def _escaped_path(path: str) -> str:
    safe = "/%$&+,:;=@-_.~!'()*[]"
    valid = all(c.isascii() and (c.isalnum() or c in safe) for c in path)
    if valid:
        return path
    raw = unquote_to_bytes(path)
    plain = set(b"$&+,/:;=@-_.~") | set(range(48, 58)) | set(range(65, 91)) | set(range(97, 123))
    return "".join(chr(b) if b in plain else f"%{b:02X}" for b in raw)


def _host(authority: str) -> tuple[str, str]:
    """Why the authority is refused, or the host in it."""
    user, at, host = authority.rpartition("@")
    if at and not all(c.isascii() and (c.isalnum() or c in "-._:~!$&'()*+,;=%@") for c in user):
        return "net/url: invalid userinfo", ""
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            return "missing ']' in host", ""
        port = host[end + 1 :]
        if port and not re.fullmatch(r":[0-9]*", port, re.ASCII):
            return f"invalid port {quote(port)} after host", ""
    elif (colon := host.rfind(":")) >= 0 and not re.fullmatch(r":[0-9]*", host[colon:], re.ASCII):
        return f"invalid port {quote(host[colon:])} after host", ""
    if bad := _bad_escape(host):
        return f"invalid URL escape {quote(bad)}", ""
    for char in host:
        if char.isascii() and not char.isalnum() and char not in "!$&'()*+,;=:[]<>\"-._~%":
            return f"invalid character {quote(char)} in host name", ""
    decoded = host
    if "%" in host:
        found = re.search(r"%[0-7][0-9a-fA-F]", host)
        if found and found.group() != "%25":
            return f"invalid URL escape {quote(found.group())}", ""
        decoded = unquote_to_bytes(host).decode("utf-8", "replace")
    return "", decoded
