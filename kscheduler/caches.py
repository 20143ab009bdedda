"""Caches whose size is limited in bytes.

Questions and answers come from objects that anybody may create, and those may be large: a number of
entries limits nothing. So the code that keeps an answer says what it costs, with whatever it keeps
alive (its question, too); and whatever is too large for its cache is worked out each time.

A cache that outlives a decision is a `BoundedCache`, or one of the others below,
or holds its values weakly. The daemon ages all of them now and then, so that nothing stays for long
that is not needed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, wraps
from sys import getrefcount, getsizeof
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# What an entry costs beside its key and value: two slots of dictionaries, half of them empty.
ENTRY_BYTES = 200
# An answer that takes more than this part of its cache would push out too much else.
LARGEST_SHARE = 8
# Structs decoded from JSON take 3 to 10 times the bytes of their text, usually 4 or 5.
EXPANSION = 6


class Cache(Protocol):
    """Interface of all caches: a name, sizes for the metrics, and aging."""

    @property
    def name(self) -> str:
        """Label in the metrics; caches of one purpose, one per profile, say, share it."""

    @property
    def max_bytes(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def entries(self) -> int: ...

    @property
    def evictions(self) -> int:
        """Entries that had to make room for others."""

    def age(self) -> None:
        """Drops what is not needed any more. To be called now and then."""


class BoundedCache(Generic[K, V]):
    """Keeps what was used last, within `max_bytes`.

    Entries are of two generations, in two dictionaries, so that a hit is a single look-up: those
    used since the younger one was begun, and the rest. When the younger one takes half of the
    bytes, the older one goes and the younger becomes the older. An entry that is found in the older
    generation moves to the younger. None is no value.
    """

    __slots__ = (
        "_older",
        "_older_bytes",
        "_older_costs",
        "_recent",
        "_recent_bytes",
        "_recent_costs",
        "evictions",
        "largest",
        "max_bytes",
        "name",
    )

    def __init__(self, name: str, max_bytes: int) -> None:
        self.name = name
        self.max_bytes = max_bytes
        # The most that an entry may cost, its overhead included, to be kept.
        self.largest = max_bytes // LARGEST_SHARE
        self.evictions = 0
        self._recent: dict[K, V] = {}
        self._older: dict[K, V] = {}
        # Of the entries of each generation.
        self._recent_costs: dict[K, int] = {}
        self._older_costs: dict[K, int] = {}
        self._recent_bytes = 0
        self._older_bytes = 0

    @property
    def bytes(self) -> int:
        return self._recent_bytes + self._older_bytes

    @property
    def entries(self) -> int:
        return len(self._recent) + len(self._older)

    def get(self, key: K) -> V | None:
        found = self._recent.get(key)
        if found is None and self._older:
            found = self._older.pop(key, None)
            if found is not None:
                cost = self._older_costs.pop(key)
                self._older_bytes -= cost
                self._enter(key, found, cost)
        return found

    def put(self, key: K, value: V, cost: int) -> None:
        """Keeps a value in place of the one there was; `cost`: what key and value take, in bytes.

        One that is too large is not kept, and nothing is under this key then.
        """
        cost += ENTRY_BYTES
        if key in self._recent or key in self._older:
            self._discard(key)
        if cost <= self.largest:
            self._enter(key, value, cost)

    def age(self) -> None:
        """Drops what was not used since the last time. To be called now and then."""
        self._drop_older()

    def clear(self) -> None:
        if not self._recent and not self._older:
            return
        self._recent.clear()
        self._older.clear()
        self._recent_costs.clear()
        self._older_costs.clear()
        self._recent_bytes = self._older_bytes = 0

    def _enter(self, key: K, value: V, cost: int) -> None:
        if self._recent_bytes + cost > self.max_bytes // 2:
            self.evictions += len(self._older)
            self._drop_older()
        self._recent[key] = value
        self._recent_costs[key] = cost
        self._recent_bytes += cost

    def _drop_older(self) -> None:
        self._older, self._older_bytes = self._recent, self._recent_bytes
        self._older_costs = self._recent_costs
        self._recent, self._recent_bytes, self._recent_costs = {}, 0, {}

    def _discard(self, key: K) -> None:
        if self._recent.pop(key, None) is not None:
            self._recent_bytes -= self._recent_costs.pop(key)
        else:
            del self._older[key]
            self._older_bytes -= self._older_costs.pop(key)


class SharedValues(BoundedCache[K, V]):
    """One copy of equal values, known as long as another object refers to it.

    Made for values that cannot be referred to weakly (tuples, dictionaries): their reference counts
    are looked at when the cache is aged.
    """

    __slots__ = ("_in_use",)

    def __init__(
        self,
        name: str,
        max_bytes: int,
        in_use: Callable[[Iterable[V]], Iterable[bool]] | None = None,
    ) -> None:
        """`in_use`: whether another object refers to each of these values, or to its parts."""
        super().__init__(name, max_bytes)
        self._in_use = in_use or are_referred_to

    def age(self) -> None:
        """Drops what no other object refers to."""
        for generation in (self._recent, self._older):
            in_use = list(self._in_use(generation.values()))
            for key in [key for key, used in zip(generation, in_use, strict=True) if not used]:
                self._discard(key)


class SharedTexts:
    """One copy of equal texts, as long as another object refers to it; long ones are not shared."""

    def __init__(self, name: str, *, entries: int, longest: int) -> None:
        self.name = name
        self.longest = longest
        self.evictions = 0
        self._max_entries = entries
        self._texts: dict[str, str] = {}

    @property
    def max_bytes(self) -> int:
        return self._max_entries * (self.longest + ENTRY_BYTES)

    @property
    def bytes(self) -> int:
        return sum(map(getsizeof, self._texts)) + ENTRY_BYTES // 2 * len(self._texts)

    @property
    def entries(self) -> int:
        return len(self._texts)

    def first(self, text: str) -> str:
        """The equal text that was seen first."""
        if len(text) > self.longest:
            return text
        texts = self._texts
        if len(texts) >= self._max_entries:
            self.evictions += len(texts)
            texts.clear()
        return texts.setdefault(text, text)

    def age(self) -> None:
        """Drops what no other object refers to."""
        texts = self._texts
        # Each is its own key.
        in_use = are_referred_to(texts.values(), own=1)
        for text in [text for text, used in zip(texts, in_use, strict=True) if not used]:
            del texts[text]


def are_referred_to(values: Iterable[object], own: int = 0) -> list[bool]:
    """Whether anything but a dictionary and `own` more objects refers to each of its values."""
    return [count > _UNREFERRED + own for count in _reference_counts(values)]


def _reference_counts(values: Iterable[object]) -> list[int]:
    return [getrefcount(value) for value in values]


# The one of the dictionary, and those of the counting itself, which differ between Pythons.
_UNREFERRED = max(_reference_counts({0: object()}.values()))


class ForShortTexts:
    """Remembers what functions make of one text, unless the text is long.

    remember = ForShortTexts("names", entries=100, longest=63)

    @remember
    def is_fine(name: str) -> bool: ...
    """

    def __init__(self, name: str, *, entries: int, longest: int) -> None:
        """`entries`: of each function."""
        self.name = name
        self.longest = longest
        self._max_entries = entries
        self._caches: list[Any] = []
        # Before the last aging.
        self._evicted = 0

    def __call__(self, function: Callable[[K], V]) -> Callable[[K], V]:
        remembering, longest = lru_cache(maxsize=self._max_entries)(function), self.longest
        self._caches.append(remembering)

        @wraps(function)
        def call(text: K) -> V:
            if isinstance(text, str) and len(text) > longest:
                return function(text)
            return remembering(text)

        return call

    @property
    def max_bytes(self) -> int:
        return len(self._caches) * self._max_entries * (self.longest + ENTRY_BYTES)

    @property
    def bytes(self) -> int:
        """Upper bound of the bytes; usual texts are shorter."""
        return self.entries * (self.longest + ENTRY_BYTES)

    @property
    def entries(self) -> int:
        return sum(cache.cache_info().currsize for cache in self._caches)

    @property
    def evictions(self) -> int:
        misses = sum(cache.cache_info().misses for cache in self._caches)
        return self._evicted + misses - self.entries

    def age(self) -> None:
        """Drops everything: what is needed is made again in a microsecond or three."""
        self._evicted = self.evictions
        for cache in self._caches:
            cache.cache_clear()


def size_of(value: object, limit: int) -> int:
    """Bytes of a value with all that it refers to; of one that exceeds the limit, just more.

    What is shared counts as often as it is met. Some 0.2 µs per object.
    """
    total, rest = 0, [value]
    while rest and total <= limit:
        item = rest.pop()
        # None, 0 and whatever is empty are shared by all objects, and cost none of them.
        if not item:
            continue
        total += getsizeof(item)
        kind: Any = type(item)
        if kind is str or kind is int or kind is bytes or kind is float or kind is bool:
            continue
        if isinstance(item, dict):
            rest.extend(item)
            rest.extend(item.values())
        elif isinstance(item, tuple | list | set | frozenset):
            rest.extend(item)
        else:
            rest.extend([getattr(item, name, None) for name in _fields_of(kind)])
    return total


@lru_cache(maxsize=256)
def _fields_of(kind: type) -> tuple[str, ...]:
    """Of structs, dataclasses and whatever has slots; of other kinds none."""
    fields = getattr(kind, "__struct_fields__", None)
    if fields is None:
        slots = [getattr(one, "__slots__", ()) for one in kind.__mro__]
        fields = [name for some in slots for name in some if not name.startswith("__")]
    return tuple(fields)
