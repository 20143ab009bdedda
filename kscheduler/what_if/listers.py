"""Listers of a fork: those of the living scheduler, read through, and the review's own objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from kscheduler.api.meta import ApiObject
from kscheduler.framework.listers import ChangeHandler, FollowedLister, Listers

T = TypeVar("T", bound=ApiObject)

ValuesOf = Callable[[T], Iterable[Hashable]]


class ForkListers:
    """The live listers, read through, with objects that only the review has.

    Plugins are told of the objects that there are when the fork is filled, and after that of those
    that the review puts or removes; of no other change.
    """

    def __init__(self, live: Listers) -> None:
        self._live = live
        self._by_kind: dict[type, ForkLister[Any]] = {}
        self._waiting: list[Iterator[None]] = []

    def lister(self, kind: type[T], /) -> ForkLister[T]:
        if kind not in self._by_kind:
            self._by_kind[kind] = ForkLister(self._live.lister(kind), self._waiting)
        return self._by_kind[kind]

    def put(self, item: ApiObject) -> None:
        """The object as it is from now on."""
        self.lister(type(item)).put(item)

    def remove(self, item: ApiObject) -> None:
        self.lister(type(item)).remove(item)

    def deliveries(self) -> Iterator[None]:
        """Tells handlers of the objects that they follow, one per step."""
        while self._waiting:
            yield from self._waiting.pop(0)


class ForkLister(Generic[T]):
    """Objects of one kind; those of the review stand in for live ones of the same key."""

    def __init__(self, live: FollowedLister[T], waiting: list[Iterator[None]]) -> None:
        self._live = live
        self._waiting = waiting
        self._handlers: list[ChangeHandler[T]] = []
        # By key; None for an object that the review has removed.
        self._own: dict[str, T | None] = {}
        self._values_of: dict[str, ValuesOf[T]] = {}
        # Own objects by index, value and key.
        self._indexed: dict[str, dict[Hashable, dict[str, T]]] = {}

    def get(self, key: str, /) -> T | None:
        return self._own[key] if key in self._own else self._live.get(key)

    def items(self) -> Iterable[T]:
        own = self._own
        yield from (item for item in own.values() if item is not None)
        yield from (item for item in self._live.items() if item.key not in own)

    @property
    def generation(self) -> int | None:
        """None where the review has objects of its own, which are not counted."""
        return None if self._own else self._live.generation

    def add_index(self, name: str, function: ValuesOf[T], /) -> None:
        """The live lister has the index already, unless another configuration wants it."""
        self._values_of[name] = function
        self._indexed[name] = {}
        for item in self._own.values():
            if item is not None:
                self._index(name, item)

    def by_index(self, name: str, value: Hashable, /) -> Sequence[T]:
        values_of, own = self._values_of[name], self._own
        try:
            found = self._live.by_index(name, value)
        except KeyError:
            found = [item for item in self._live.items() if value in values_of(item)]
        if not own:
            return found
        indexed = self._indexed[name].get(value, {})
        return [*indexed.values(), *[item for item in found if item.key not in own]]

    def add_handler(self, handler: ChangeHandler[T], /) -> object:
        self._handlers.append(handler)
        self._waiting.append(self._delivered_to(handler))
        return handler

    def put(self, item: T) -> None:
        """Costs no more if there are many."""
        old = self.get(item.key)
        self._unindex(item.key)
        self._own[item.key] = item
        for name in self._values_of:
            self._index(name, item)
        for handler in self._handlers:
            if old is None:
                handler.on_add(item, is_initial=False)
            else:
                handler.on_update(old, item)

    def remove(self, item: T) -> None:
        self._unindex(item.key)
        self._own[item.key] = None
        for handler in self._handlers:
            handler.on_delete(item, final_state_unknown=False)

    def _index(self, name: str, item: T) -> None:
        for value in self._values_of[name](item):
            self._indexed[name].setdefault(value, {})[item.key] = item

    def _unindex(self, key: str) -> None:
        item = self._own.get(key)
        if item is not None:
            for name, values_of in self._values_of.items():
                for value in values_of(item):
                    self._indexed[name][value].pop(key, None)

    def _delivered_to(self, handler: ChangeHandler[T]) -> Iterator[None]:
        for item in list(self.items()):
            handler.on_add(item, is_initial=True)
            yield
