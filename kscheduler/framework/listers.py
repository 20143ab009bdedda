"""How plugins read API objects other than nodes and pods on nodes: by kind, then by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar, cast

from kscheduler.api.meta import ApiObject

T = TypeVar("T", bound=ApiObject)
T_co = TypeVar("T_co", bound=ApiObject, covariant=True)


class Lister(Protocol[T_co]):
    """The objects of one kind as they are known just now."""

    def get(self, key: str, /) -> T_co | None:
        """By `namespace/name`, or by `name` where the kind has no namespaces."""

    def items(self) -> Iterable[T_co]: ...

    @property
    def generation(self) -> int | None:
        """Another number after every change; None if changes are not counted."""


class Listers(Protocol):
    """`listers.lister(StorageClass).get("fast")`; the app feeds them from informers."""

    def lister(self, kind: type[T], /) -> Lister[T]: ...


class FixedLister(Generic[T]):
    generation = None

    def __init__(self, objects: Mapping[str, T]) -> None:
        self._objects = objects

    def get(self, key: str, /) -> T | None:
        return self._objects.get(key)

    def items(self) -> Iterator[T]:
        return iter(self._objects.values())


class FixedListers:
    """Listers over objects given once: for simulations and tests."""

    def __init__(self, objects: Iterable[ApiObject] = ()) -> None:
        self._by_kind: dict[type, dict[str, ApiObject]] = {}
        for one in objects:
            self._by_kind.setdefault(type(one), {})[one.key] = one

    def lister(self, kind: type[T], /) -> FixedLister[T]:
        return FixedLister(cast("Mapping[str, T]", self._by_kind.get(kind, {})))
