"""The guard: only the browser that was opened by this process gets anything.

    address with a secret, opened once ──▶ cookie of this process ──▶ pages

The port is on loopback, but every program of every user on the machine can connect to it, and so
can every web page in the browser. Hence: a secret that works once; a cookie that scripts cannot
read and that other sites' requests do not carry; the Host that was opened and no other (a name that
is made to resolve to 127.0.0.1 is refused); and requests that say that they come from this origin.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web

from kscheduler.ui.html import e

# Script, style and connections from here alone; nothing inline, no frames, no markup from text.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without a referrer, forms would come from the origin "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
SECRET_BYTES = 24
OPEN = "open"
SAME_ORIGIN = ("same-origin", "none")
READS = ("GET", "HEAD")


class Guard:
    """Secret and cookie of one process, and the hosts it answers to."""

    def __init__(self, hosts: Collection[str], port: int) -> None:
        self._hosts = frozenset(f"{host}:{port}" for host in hosts)
        # Cookies are shared by all ports of a host: another page's must not be replaced.
        self.cookie = f"kscheduler-{port}"
        self._secret: str | None = secrets.token_urlsafe(SECRET_BYTES)
        self._session = secrets.token_urlsafe(SECRET_BYTES)

    @property
    def secret(self) -> str:
        """A secret that opens the page once; a new one if the last was used."""
        if self._secret is None:
            self._secret = secrets.token_urlsafe(SECRET_BYTES)
        return self._secret

    def refusal(self, request: web.BaseRequest) -> str | None:
        """Why the request does not come from the page or its address bar; None if it does."""
        host = request.headers.get("Host", "")
        if host.lower() not in self._hosts:
            return "This host name is not the page's own."
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return "The request comes from another site."
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site not in SAME_ORIGIN and not self._is_navigation(request):
            return "The request comes from another site."
        if request.method not in READS and origin is None:
            return "The request does not say where it comes from."
        return None

    def is_open(self, request: web.BaseRequest) -> bool:
        """Whether the request has this process's cookie."""
        given = request.cookies.get(self.cookie, "")
        return hmac.compare_digest(given.encode(), self._session.encode())

    def exchange(self, request: web.BaseRequest, secret: str) -> web.Response | None:
        """A redirect to the page, with the cookie, for the secret; it is used up by that."""
        if not self.is_open(request):
            known = self._secret
            if known is None or not hmac.compare_digest(secret.encode(), known.encode()):
                return None
            self._secret = None
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "./"})
        answer.set_cookie(self.cookie, self._session, httponly=True, samesite="Strict", path="/")
        return answer

    @staticmethod
    def _is_navigation(request: web.BaseRequest) -> bool:
        """A link followed from elsewhere: it may arrive, but it carries no cookie."""
        return request.method == "GET" and request.headers.get("Sec-Fetch-Mode") == "navigate"


def refused(text: str, *, again: str = "") -> web.Response:
    """A page without content; `again` is an address to go on from here, which carries the
    cookie that a link from elsewhere does not.
    """
    body = e(
        "html",
        e("head", e("meta", charset="utf-8"), e("title", "kscheduler: refused")),
        e(
            "body",
            e("h1", "Not opened"),
            e("p", text),
            e("p", e("a", "Go on, if this browser opened the page", href=again)) if again else None,
        ),
        lang="en",
    )
    return web.Response(
        status=HTTPStatus.FORBIDDEN,
        text=f"<!doctype html>\n{body}",
        content_type="text/html",
        headers=HEADERS,
    )
