"""One view as it is being made: where it is, what its query says, and addresses from there.

Addresses are relative, so that the page works behind any prefix. The frame around every view is
here, too: navigation, search, and the line that says whether what is shown is still true.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from kscheduler.ui.html import Child, Html, e
from kscheduler.version import __version__

# Address, title and key of each view in the navigation.
VIEWS = (
    ("", "Overview"),
    ("nodes", "Nodes"),
    ("pending", "Pending"),
    ("what-if", "What if"),
    ("configuration", "Configuration"),
)


class Page:
    """A request for a view: `path` is relative to the root, without a slash at its beginning."""

    def __init__(self, path: str, query: Mapping[str, str], way: str = "") -> None:
        self.path = path
        self.query = dict(query)
        self.way = way
        self._up = "../" * path.count("/")

    def to(self, path: str, **query: str | int | None) -> str:
        """The address of another view, from this one."""
        address = (self._up + path) or "./"
        return f"{address}?{encoded}" if (encoded := _encoded(query)) else address

    def here(self, **query: str | int | None) -> str:
        """This view with another query; None takes a parameter out."""
        encoded = _encoded({**self.query, **query})
        return f"?{encoded}" if encoded else "?"

    @staticmethod
    def quoted(text: str) -> str:
        """A name as part of an address."""
        return quote(text, safe="/")

    def pod(self, key: str, text: str = "") -> Html:
        """A link to a pod by `namespace/name`."""
        return e("a", text or key, href=self.to(f"pods/{self.quoted(key)}"))

    def node(self, name: str) -> Html:
        return e("a", name, href=self.to(f"nodes/{self.quoted(name)}"))

    def frame(self, title: str, *content: Child) -> str:
        """The whole document."""
        first = self.path.split("/")[0]
        return "<!doctype html>\n" + e(
            "html",
            e(
                "head",
                e("meta", charset="utf-8"),
                e("title", f"{title} · kscheduler"),
                e("meta", name="viewport", content="width=device-width, initial-scale=1"),
                e("meta", name="color-scheme", content="light dark"),
                e("link", rel="icon", href=self.to("static/icon.svg"), type="image/svg+xml"),
                e("link", rel="stylesheet", href=self.to("static/style.css")),
                e("script", type="module", src=self.to("static/page.js")),
            ),
            e(
                "body",
                e("a.skip", "To the content", href="#content"),
                e(
                    "header.top",
                    e("a.brand", "kscheduler", href=self.to("")),
                    e(
                        "nav",
                        [
                            e(
                                "a",
                                name,
                                href=self.to(path),
                                aria_current="page" if path == first else None,
                            )
                            for path, name in VIEWS
                        ],
                        aria_label="Views",
                    ),
                    e(
                        "form.find",
                        e("label.hidden", "Pod or node", for_="find"),
                        e(
                            "input",
                            id="find",
                            name="name",
                            type="search",
                            placeholder="namespace/pod or node",
                            autocomplete="off",
                            required=True,
                        ),
                        e("button", "Go"),
                        action=self.to("find"),
                        role="search",
                    ),
                    e("p.connection#connection", e("span", "as of loading"), role="status"),
                ),
                e("main#content", *content, tabindex=-1),
                e(
                    "footer",
                    f"kscheduler {__version__}",
                    f" · asking {self.way}" if self.way else "",
                ),
            ),
            lang="en",
            data_root=self.to(""),
            data_view=first or "overview",
        )


def _encoded(query: Mapping[str, str | int | None]) -> str:
    return urlencode({name: value for name, value in query.items() if value is not None})
