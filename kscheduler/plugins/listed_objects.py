"""What follows from all objects of a kind, worked out again only when one of them changed.

A lister that counts its changes is asked for its count. Otherwise objects are compared: they are
immutable and replaced when they change, so a list of the very same ones means the same as before.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from kscheduler.api.meta import ApiObject
from kscheduler.framework.listers import Lister
from kscheduler.state.memo import Memo

T = TypeVar("T", bound=ApiObject)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_ANSWERS = 1024


class AnswersFrom(Generic[T, K, V]):
    """Answers that are good as long as the listed objects stay what they are."""

    def __init__(self, lister: Lister[T]) -> None:
        self._lister = lister
        self.objects: tuple[T, ...] = ()
        self._as_of: int | None = None
        self._answers: Memo[K, V] = Memo(MAX_ANSWERS)

    def get(self, question: K) -> V | None:
        """The remembered answer, if there is one and no object has changed since."""
        generation = self._lister.generation
        if generation is None or generation != self._as_of:
            self._as_of = generation
            self._look_again()
        return self._answers.get(question)

    def _look_again(self) -> None:
        objects = tuple(self._lister.items())
        if objects != self.objects:
            self.objects = objects
            self._answers.clear()

    def put(self, question: K, answer: V) -> V:
        self._answers.put(question, answer)
        return answer
