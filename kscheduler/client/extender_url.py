"""Where a question to an extender goes, by a URL as somebody wrote it into a configuration.

As upstream, nothing of it is checked before the first question. Where nobody can be asked is told
in the words of Go's net/url and net/http.
"""

import base64
import re
from typing import NamedTuple, NoReturn
from urllib.parse import quote as escape
from urllib.parse import unquote, unquote_to_bytes

from kscheduler.errors import KschedulerError
from kscheduler.gotext.strconv import quote

MAX_PORT = 65_535

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.S)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.S)
_PORT = re.compile(r"(?::[0-9]*)?")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
# Only ASCII is looked at: naming all other characters would take 8 ms to compile.
_NOT_IN_HOST = re.compile(r"(?=[\x00-\x7f])[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"]")
# What may stand in a path as it is, and what does when the path has to be written anew.
_PATH = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*")
_KEPT_IN_PATH = "$&+,/:;=@"


class AddressError(KschedulerError):
    """Nobody can be asked there."""


class Address(NamedTuple):
    server: str  # scheme and host, as a URL
    target: str  # what is asked for there
    authorization: str  # "" if none
    shown: str  # in quotes, without the password


def address(url: str) -> Address:
    """Raises AddressError."""
    scheme, authority, path, query, fragment = _parts(url)
    userinfo, at, host = authority.rpartition("@")
    _check_authority(url, userinfo, host)
    host = host.removesuffix(":")
    user, colon, password = userinfo.partition(":")
    path = path if _PATH.fullmatch(path) else escape(unquote_to_bytes(path), safe=_KEPT_IN_PATH)
    before = f"{scheme}:" if scheme else ""
    if authority or path.startswith("//") or (scheme and url[len(before) :].startswith("//")):
        before += f"//{user}{':***' if colon else ''}{at}{host}"
    shown = quote(f"{before}{path}{query}{fragment}")
    if scheme not in ("http", "https"):
        raise AddressError(f"Post {shown}: unsupported protocol scheme {quote(scheme)}")
    if not host:
        raise AddressError(f"Post {shown}: http: no Host in request URL")
    port = host.rpartition(":")[2]
    if port.isdigit() and int(port) > MAX_PORT:
        raise AddressError(f"Post {shown}: dial tcp: address {port}: invalid port")
    pair = f"{unquote(user)}:{unquote(password)}"
    authorization = f"Basic {base64.b64encode(pair.encode()).decode()}" if at else ""
    return Address(f"{scheme}://{host}", f"{path or '/'}{query}", authorization, shown)


def _parts(url: str) -> tuple[str, str, str, str, str]:
    """Scheme, authority, path, query and fragment, the latter two with what introduces them."""
    if _CONTROL.search(url):
        _refuse(url, "net/url: invalid control character in URL")
    rest, hash_sign, fragment = url.partition("#")
    scheme, found = "", _SCHEME.fullmatch(rest)
    if found is not None:
        scheme, rest = found[1].lower(), found[2]
    elif rest.startswith(":"):
        _refuse(url, "missing protocol scheme")
    rest, mark, query = rest.partition("?")
    if not scheme and ":" in rest.partition("/")[0]:
        _refuse(url, "first path segment in URL cannot contain colon")
    authority = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    for part in (authority, rest, fragment):
        if (wrong := _BAD_ESCAPE.search(part)) is not None:
            _refuse(url, f"invalid URL escape {quote(wrong[0])}")
    return scheme, authority, rest, mark + query, hash_sign + fragment


def _check_authority(url: str, userinfo: str, host: str) -> None:
    if not _USERINFO.fullmatch(userinfo):
        _refuse(url, "net/url: invalid userinfo")
    name, bracket, port = host.partition("]")
    if host.startswith("["):
        if not bracket:
            _refuse(url, "missing ']' in host")
    else:
        name, colon, port = host.rpartition(":")
        name, port = (name, colon + port) if colon else (host, "")
    if not _PORT.fullmatch(port):
        _refuse(url, f"invalid port {quote(port)} after host")
    if host.startswith("["):
        return
    if "%" in name:
        _refuse(url, f"invalid URL escape {quote(name[name.index('%') :][:3])}")
    if (wrong := _NOT_IN_HOST.search(name)) is not None:
        _refuse(url, f"invalid character {quote(wrong[0])} in host name")


def _refuse(url: str, why: str) -> NoReturn:
    raise AddressError(f"parse {quote(url)}: {why}")
