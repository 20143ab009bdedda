"""Listers: API objects other than nodes and pods on nodes, by kind and then by key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar, cast

from kscheduler.api.meta import ApiObject

T = TypeVar("T", bound=ApiObject)
T_co = TypeVar("T_co", bound=ApiObject, covariant=True)
T_contra = TypeVar("T_contra", bound=ApiObject, contravariant=True)


class ChangeHandler(Protocol[T_contra]):
    """Callbacks for every change, in the step that makes it; the lister has changed already."""

    def on_add(self, item: T_contra, *, is_initial: bool) -> None: ...

    def on_update(self, old: T_contra, new: T_contra) -> None: ...

    def on_delete(self, item: T_contra, *, final_state_unknown: bool) -> None: ...


class Lister(Protocol[T_co]):
    """Objects of one kind, in the latest version received."""

    def get(self, key: str, /) -> T_co | None:
        """By `namespace/name`, or by `name` where the kind has no namespaces."""

    def items(self) -> Iterable[T_co]: ...

    @property
    def generation(self) -> int | None:
        """Another number after every change; None if changes are not counted."""


class FollowedLister(Lister[T_co], Protocol[T_co]):
    """One that can also be searched by an index, and that tells of changes."""

    def add_index(self, name: str, function: Callable[[T_co], Iterable[Hashable]], /) -> None:
        """Lets objects be found by the values `function` gives for them."""

    def by_index(self, name: str, value: Hashable, /) -> Sequence[T_co]: ...

    def add_handler(self, handler: ChangeHandler[T_co], /) -> object:
        """Calls `handler` from now on; what is known already is delivered at once."""


class Listers(Protocol):
    """`listers.lister(StorageClass).get("fast")`; the app feeds them from informers."""

    def lister(self, kind: type[T], /) -> FollowedLister[T]: ...


class FixedLister(Generic[T]):
    """A lister over objects given once."""

    generation = None

    def __init__(self, objects: Mapping[str, T]) -> None:
        self._objects = objects
        self._indexes: dict[str, Callable[[T], Iterable[Hashable]]] = {}

    def get(self, key: str, /) -> T | None:
        return self._objects.get(key)

    def items(self) -> Iterator[T]:
        return iter(self._objects.values())

    def add_index(self, name: str, function: Callable[[T], Iterable[Hashable]], /) -> None:
        self._indexes[name] = function

    def by_index(self, name: str, value: Hashable, /) -> list[T]:
        values_of = self._indexes[name]
        return [item for item in self._objects.values() if value in values_of(item)]

    def add_handler(self, handler: ChangeHandler[T], /) -> None:
        for item in self._objects.values():
            handler.on_add(item, is_initial=True)


class FixedListers:
    """Listers over objects given once: for simulations and tests."""

    def __init__(self, objects: Iterable[ApiObject] = ()) -> None:
        self._by_kind: dict[type, dict[str, ApiObject]] = {}
        for one in objects:
            self._by_kind.setdefault(type(one), {})[one.key] = one

    def lister(self, kind: type[T], /) -> FixedLister[T]:
        return FixedLister(cast("Mapping[str, T]", self._by_kind.get(kind, {})))
