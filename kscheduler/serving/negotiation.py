"""Which of the forms we have a client likes best, by its Accept header.

Parsed as goautoneg does, chosen as an API server chooses: in the client's order, and for each of
its wishes the first of our forms that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

JSON = "application/json"
YAML = "application/yaml"
TEXT = "text/plain"

# A header that names more is not read further.
MAX_WISHES = 64


class Target(NamedTuple):
    """The API kind a client wants an answer converted to."""

    group: str
    version: str
    kind: str

    def parameters(self) -> str:
        parts = (("g", self.group), ("v", self.version), ("as", self.kind))
        return "".join(f";{name}={value}" for name, value in parts if value)


@dataclass(frozen=True, slots=True)
class Wish:
    """One clause of an Accept header."""

    type: str
    subtype: str
    quality: float = 1.0
    parameters: Mapping[str, str] = field(default_factory=dict)

    def fits(self, media_type: str) -> bool:
        main, _, sub = media_type.partition("/")
        return (self.type, self.subtype) == ("*", "*") or (
            self.type == main and self.subtype in (sub, "*")
        )

    @property
    def target(self) -> Target | None:
        if self.parameters.keys().isdisjoint(("g", "v", "as")):
            return None
        return Target(*(self.parameters.get(name, "") for name in ("g", "v", "as")))


class Choice(NamedTuple):
    media_type: str
    target: Target | None


Allows = Callable[[str, Target | None], bool]


def unconverted(media_type: str, target: Target | None) -> bool:
    """What errors allow: any form, no other kind."""
    return target is None


def choose(header: str, forms: Sequence[str], allows: Allows = unconverted) -> Choice | None:
    """None if nothing we have will do."""
    if not header:
        return Choice(forms[0], None)
    for wish in wishes(header):
        if wish.parameters.get("stream") or wish.parameters.get("sv"):
            continue
        for form in forms:
            if wish.fits(form) and allows(form, wish.target):
                return Choice(form, wish.target)
    return None


def wishes(header: str) -> list[Wish]:
    """Best first; clauses that are none are left out."""
    clauses = (_wish(text) for text in header.split(",", MAX_WISHES)[:MAX_WISHES])
    found = [wish for wish in clauses if wish is not None]
    return sorted(found, key=lambda wish: (-wish.quality, wish.type == "*", wish.subtype == "*"))


def _wish(clause: str) -> Wish | None:
    media_type, *rest = (part.strip() for part in clause.split(";"))
    main, slash, sub = media_type.partition("/")
    if media_type == "*":
        main, slash, sub = "*", "/", "*"
    if not slash or "/" in sub:
        return None
    pairs = (part.partition("=") for part in rest)
    parameters = {name.strip(): value.strip().strip('"') for name, _, value in pairs}
    return Wish(main.strip(), sub.strip(), _quality(parameters.pop("q", "1")), parameters)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
