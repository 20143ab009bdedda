"""API objects that cannot be changed, for plugins that others wrote.

Structs are frozen by themselves, but the dicts inside of them are not, and they are shared: by the
informer, by the cache, by pods with equal specs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from kscheduler.caches import BoundedCache, size_of

T = TypeVar("T")

_PLAIN = frozenset({str, int, float, bool, type(None), bytes})
MAX_BYTES = 16 << 20


def frozen(value: T) -> T:
    """The same value; nothing that can be reached from it can be changed."""
    return _frozen(value)


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if issubclass(kind, Struct):
        return _frozen_struct(value)
    if issubclass(kind, Mapping):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if kind is tuple or kind is list:
        return tuple(map(_frozen, value))
    return value


def _frozen_struct(value: Struct) -> Struct:
    changes = {}
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if type(field) not in _PLAIN:
            changed = _frozen(field)
            if changed is not field:
                changes[name] = changed
    return structs.replace(value, **changes) if changes else value


def thawed(value: Any) -> Any:
    """Plain dicts and lists again, fit for JSON."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thawed(item) for item in value]
    return value


class Kept(Generic[T]):
    """What was made of objects, while they are the same objects."""

    __slots__ = ("_make", "cache")

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.cache: BoundedCache[int, tuple[Any, T]] = BoundedCache("frozen_objects", MAX_BYTES)

    def of(self, original: Any) -> T:
        known = self.cache.get(id(original))
        if known is None:
            # With the original itself, lest another gets its identity.
            known = original, self._make(original)
            self.cache.put(id(original), known, 2 * size_of(original, self.cache.largest))
        return known[1]
