"""URLs by the rules of Go's net/url, which refuses more than urllib does, in its words.

Mirrors url.Parse. Differs: an address in brackets that is none is refused without saying where.
"""

import re
from ipaddress import IPv4Address, ip_address

import msgspec
from msgspec.structs import replace

from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import quote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)?:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_ASCII_ESCAPE = re.compile(r"%(?!25)[0-7].", re.DOTALL)
# Only ASCII is looked at: naming all other characters would take 8 ms to compile.
_NO_HOST_CHARACTER = re.compile(r"(?=[\x00-\x7f])[^%A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"-]")
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_PORT = re.compile(r"(:[0-9]*)?")


class Url(msgspec.Struct, frozen=True):
    """Parts of a URL as they were written; `query` and `fragment` with what introduces them."""

    scheme: str
    authority: str
    path: str
    query: str = ""
    fragment: str = ""
    opaque: str = ""  # instead of authority and path, as in `localhost:80`

    @property
    def host(self) -> str:
        return self.authority.rpartition("@")[2]


def parse_url(text: str) -> Url:
    """Raises ConfigError, in the words of url.Parse."""
    whole, hash_sign, fragment = text.partition("#")
    try:
        url = _parsed(whole)
    except ValueError as error:
        raise ConfigError(f"parse {quote(whole)}: {error}") from error
    try:
        _check_escapes(fragment)
    except ValueError as error:
        raise ConfigError(f"parse {quote(text)}: {error}") from error
    return replace(url, fragment=hash_sign + fragment)


def _parsed(text: str) -> Url:
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    scheme, rest = "", text
    if match := _SCHEME.match(text):
        if not match[1]:
            raise ValueError("missing protocol scheme")
        scheme, rest = match[1].lower(), text[match.end() :]
    rest, mark, query = rest.partition("?")
    query = mark + query
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", query, opaque=rest)
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    authority = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, _, host = authority.rpartition("@")
        _check_host(scheme, host)
        if not _USER.fullmatch(user):
            raise ValueError("net/url: invalid userinfo")
        _check_escapes(user)
    _check_escapes(rest)
    return Url(scheme, authority, rest, query)


def _check_host(scheme: str, host: str) -> None:
    bracket = host.rfind("[")
    if bracket > 0:
        raise ValueError("invalid IP-literal")
    if bracket == 0:
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        _check_port(host[end + 1 :])
        name = host[1:end]
        _check_host_name(name.partition("%25")[0])  # what follows is a zone
        try:
            address = ip_address(name.replace("%25", "%"))
        except ValueError:
            reason = f"ParseAddr({quote(name)}): unable to parse IP"
            raise ValueError(f"invalid host: {reason}") from None
        if isinstance(address, IPv4Address):
            raise ValueError("invalid IP-literal")
        return
    # Only web addresses have to have a host without colons.
    colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    if colon >= 0:
        _check_port(host[colon:])
    _check_host_name(host)


def _check_port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise ValueError(f"invalid port {quote(text)} after host")


def _check_host_name(name: str) -> None:
    problems = (_ESCAPE.search(name), _ASCII_ESCAPE.search(name), _NO_HOST_CHARACTER.search(name))
    found = min(filter(None, problems), key=lambda match: match.start(), default=None)
    if found is None:
        return
    if found[0].startswith("%"):
        raise ValueError(f"invalid URL escape {quote(found[0])}")
    raise ValueError(f"invalid character {quote(found[0])} in host name")


def _check_escapes(text: str) -> None:
    if match := _ESCAPE.search(text):
        raise ValueError(f"invalid URL escape {quote(match[0])}")
