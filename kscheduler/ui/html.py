"""HTML built from Python: text is escaped, always; only what is built here is markup.

    e("p.lead", "It is on ", link, ".")      <p class="lead">It is on <a …>…</a>.</p>

There is no way to write markup as text: a name of a pod, a label or a message becomes a text node
or an attribute's value, whatever it contains.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

# Stands where there is no value, between two numbers, and before a weight.
DASH, TIMES = "\u2013", "\u00d7"
VOID = frozenset(("br", "col", "hr", "img", "input", "link", "meta"))


class Html(str):
    """Markup that was built here."""

    __slots__ = ()


Child: TypeAlias = "str | int | bool | Iterable[Child] | None"
Attribute = str | int | float | bool | None


def e(selector: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element: `tag.class.class#id`. Underscores in names of attributes are dashes, a trailing
    one is dropped (`for_`); True is a bare attribute, None and False are left out.
    """
    selector, _, identity = selector.partition("#")
    tag, *classes = selector.split(".")
    parts = [tag]
    if identity:
        parts.append(f'id="{escape(identity)}"')
    if classes:
        parts.append(f'class="{" ".join(classes)}"')
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = name.rstrip("_").replace("_", "-")
        parts.append(spelled if value is True else f'{spelled}="{escape(str(value))}"')
    head = f"<{' '.join(parts)}>"
    return Html(head if tag in VOID else f"{head}{text_of(children)}</{tag}>")


def text_of(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if child is None or isinstance(child, bool):
        return ""
    if isinstance(child, str):
        return escape(child)
    if isinstance(child, int):
        return str(child)
    return "".join(map(text_of, child))


def group(*children: Child) -> Html:
    """Elements beside each other, without one around them."""
    return Html(text_of(children))
