"""Finds, among many selectors, the few that could match a given pod.

A selector that names a value (`app in (web)`) is filed under that value, one that only names a key
under the key, any other under its namespace. A pod then looks under its own labels, instead of
asking every selector.

Entries may have a topic each. Those of topics nobody asks about are not gone through, however many
there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Generic, TypeVar

from kscheduler.api.labels import Operator, Requirement, Selector

E = TypeVar("E")

# A selector that lists more values than this is filed under its key: an entry in so many places
# costs more than it saves.
MAX_PLACES = 64

Namespaces = Set[str] | None  # None stands for every namespace
_Place = tuple[str, ...]
_NO_TOPIC = frozenset(("",))


class SelectorLookup(Generic[E]):
    """Entries filed by the selector they stand for."""

    def __init__(self) -> None:
        # Namespace, or None for selectors over several → place → topic → entries. Dicts are the
        # ordered sets here.
        self._files: dict[str | None, dict[_Place, dict[str, dict[E, None]]]] = {}

    def add(self, entry: E, namespaces: Namespaces, selector: Selector, topic: str = "") -> None:
        if selector.matches_nothing:
            return
        file = self._files.setdefault(_scope(namespaces), {})
        for place in _places(selector):
            file.setdefault(place, {}).setdefault(topic, {})[entry] = None

    def remove(self, entry: E, namespaces: Namespaces, selector: Selector, topic: str = "") -> None:
        if selector.matches_nothing:
            return
        scope = _scope(namespaces)
        file = self._files[scope]
        for place in _places(selector):
            topics = file[place]
            del topics[topic][entry]
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del file[place]
        if not file:
            del self._files[scope]

    def candidates(
        self, namespace: str, labels: Mapping[str, str], topics: Set[str] = _NO_TOPIC
    ) -> Iterator[E]:
        """All entries on these topics whose selector matches such a pod, each once, and some whose
        does not.
        """
        for scope in (namespace, None):
            file = self._files.get(scope)
            if file is None:
                continue
            places: list[_Place] = [()]
            for key, value in labels.items():
                places += (key,), (key, value)
            for place in places:
                filed = file.get(place)
                if filed is not None:
                    for topic in filed.keys() & topics:
                        yield from filed[topic]


def _scope(namespaces: Namespaces) -> str | None:
    if namespaces is not None and len(namespaces) == 1:
        return next(iter(namespaces))
    return None


def _places(selector: Selector) -> list[_Place]:
    """Key under which the selector is filed: the requirement that the fewest pods can meet."""
    telling = min(selector, key=_breadth, default=None)
    if telling is None or not telling.needs_key:
        return [()]
    if telling.operator is Operator.IN and len(telling.values) <= MAX_PLACES:
        return [(telling.key, value) for value in telling.values]
    return [(telling.key,)]


def bytes_of_selector(selector: Selector) -> int:
    """About as much memory as the selector takes, for those who keep it."""
    return 200 + sum([300 + 150 * len(requirement.values) for requirement in selector])


def _breadth(requirement: Requirement) -> int:
    if requirement.operator is Operator.IN:
        return len(requirement.values)
    # An alternative of a thousand values is still narrower than any key.
    return 1 << 30 if requirement.needs_key else 1 << 31
