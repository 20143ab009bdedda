"""Listers of a fork: those of the living scheduler, read through, and the review's own objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kscheduler.api.meta import ApiObject
from kscheduler.framework.listers import ChangeHandler, FollowedLister, Listers

T = TypeVar("T", bound=ApiObject)


class ForkListers:
    """The live listers, read through, with objects that only the review has.

    Plugins are told of the objects that there are when the fork is filled, and after that of those
    that the review puts or removes; of no other change.
    """

    def __init__(self, live: Listers) -> None:
        self._live = live
        # By kind and key; None for an object that the review has removed.
        self._own: dict[type, dict[str, Any]] = {}
        self._handlers: dict[type, list[ChangeHandler[Any]]] = {}
        self._waiting: list[Iterator[None]] = []

    def lister(self, kind: type[T], /) -> FollowedLister[T]:
        own = self._own.setdefault(kind, {})
        handlers = self._handlers.setdefault(kind, [])
        return ForkLister(self._live.lister(kind), own, handlers, self._waiting)

    def put(self, item: ApiObject) -> None:
        """The object as it is from now on."""
        kind = type(item)
        old = self.lister(kind).get(item.key)
        self._own[kind][item.key] = item
        for handler in self._handlers[kind]:
            if old is None:
                handler.on_add(item, is_initial=False)
            else:
                handler.on_update(old, item)

    def remove(self, item: ApiObject) -> None:
        kind = type(item)
        self._own.setdefault(kind, {})[item.key] = None
        for handler in self._handlers.get(kind, ()):
            handler.on_delete(item, final_state_unknown=False)

    def deliveries(self) -> Iterator[None]:
        """Tells handlers of the objects that they follow, one per step."""
        while self._waiting:
            yield from self._waiting.pop(0)


class ForkLister(Generic[T]):
    def __init__(
        self,
        live: FollowedLister[T],
        own: Mapping[str, T | None],
        handlers: list[ChangeHandler[T]],
        waiting: list[Iterator[None]],
    ) -> None:
        self._live = live
        self._own = own
        self._handlers = handlers
        self._waiting = waiting
        self._indexes: dict[str, Callable[[T], Iterable[Hashable]]] = {}

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

    def add_index(self, name: str, function: Callable[[T], Iterable[Hashable]], /) -> None:
        """The live lister has the index already, unless another configuration wants it."""
        self._indexes[name] = function

    def by_index(self, name: str, value: Hashable, /) -> Sequence[T]:
        values_of, own = self._indexes[name], self._own
        try:
            found = self._live.by_index(name, value)
        except KeyError:
            found = [item for item in self._live.items() if value in values_of(item)]
        if not own:
            return found
        return [
            *[item for item in own.values() if item is not None and value in values_of(item)],
            *[item for item in found if item.key not in own],
        ]

    def add_handler(self, handler: ChangeHandler[T], /) -> object:
        self._handlers.append(handler)
        self._waiting.append(self._delivered_to(handler))
        return handler

    def _delivered_to(self, handler: ChangeHandler[T]) -> Iterator[None]:
        for item in list(self.items()):
            handler.on_add(item, is_initial=True)
            yield
