"""Answers that follow from all objects of a kind, worked out again only when one has changed.

A lister that counts its changes is asked for its count. Otherwise objects are compared: they are
immutable and replaced when they change, so a list of the very same ones means the same as before.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from kscheduler.api.meta import ApiObject
from kscheduler.caches import BoundedCache
from kscheduler.framework.listers import FollowedLister, Lister

T = TypeVar("T", bound=ApiObject)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# For each kind of objects, by whoever asks.
MAX_BYTES_PER_MEMO = 1 << 20

_BY_NAMESPACE = "namespace"


class ListerMemo(Generic[T, K, V]):
    """Answers that are good as long as the listed objects stay what they are."""

    def __init__(self, lister: Lister[T], name: str) -> None:
        """`name`: that of the cache."""
        self._lister = lister
        self.objects: tuple[T, ...] = ()
        self._as_of: int | None = None
        self._answers: BoundedCache[K, V] = BoundedCache(name, MAX_BYTES_PER_MEMO)
        self.caches = (self._answers,)

    def get(self, question: K) -> V | None:
        """The remembered answer, if there is one and no object has changed since."""
        generation = self._lister.generation
        if generation is None or generation != self._as_of:
            self._as_of = generation
            objects = tuple(self._lister.items())
            if objects != self.objects:
                self.objects = objects
                self._answers.clear()
        return self._answers.get(question)

    def put(self, question: K, answer: V, cost: int) -> V:
        """`cost`: bytes of question and answer."""
        self._answers.put(question, answer, cost)
        return answer


class _Kept(Generic[T, V]):
    """An answer with the very objects it comes from."""

    __slots__ = ("answer", "as_of", "come_from")

    def __init__(self, answer: V, come_from: tuple[T, ...], as_of: int | None) -> None:
        self.answer = answer
        self.come_from = come_from
        # The last generation of the lister at which the namespace had just these objects.
        self.as_of = as_of


class NamespaceMemo(Generic[T, K, V]):
    """Answers about the objects of one namespace; objects of others do not matter.

    A change in another namespace costs a comparison of the namespace's objects with those that the
    answers come from.
    """

    def __init__(self, lister: FollowedLister[T], name: str) -> None:
        """`name`: that of the cache."""
        self._lister = lister
        lister.add_index(_BY_NAMESPACE, lambda item: (item.metadata.namespace,))
        self._objects: BoundedCache[str, tuple[int | None, tuple[T, ...]]] = BoundedCache(
            f"{name}_by_namespace", MAX_BYTES_PER_MEMO
        )
        self._answers: BoundedCache[tuple[str, K], _Kept[T, V]] = BoundedCache(
            name, MAX_BYTES_PER_MEMO
        )
        self.caches = (self._objects, self._answers)

    def objects(self, namespace: str) -> tuple[T, ...]:
        """Objects of the namespace, in the very same tuple as long as none changes."""
        generation = self._lister.generation
        as_of, known = self._objects.get(namespace) or (None, ())
        if generation is not None and generation == as_of:
            return known
        objects = tuple(self._lister.by_index(_BY_NAMESPACE, namespace))
        if objects == known:
            objects = known
        if objects is not known or generation != as_of:
            self._objects.put(namespace, (generation, objects), 100 + 8 * len(objects))
        return objects

    def get(self, namespace: str, question: K) -> V | None:
        """The remembered answer, if there is one and no object has changed since."""
        kept = self._answers.get((namespace, question))
        if kept is None:
            return None
        generation = self._lister.generation
        if generation is None or generation != kept.as_of:
            if kept.come_from is not self.objects(namespace):
                return None
            kept.as_of = generation
        return kept.answer

    def put(self, namespace: str, question: K, answer: V, cost: int) -> V:
        """`cost`: bytes of question and answer."""
        come_from = self.objects(namespace)
        kept = _Kept(answer, come_from, self._lister.generation)
        self._answers.put((namespace, question), kept, cost)
        return answer
