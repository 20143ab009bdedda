"""The source of all that the page shows: the scheduler's API and the API server, asked as the user.

Nothing else is forwarded: five kinds of the scheduler's own API, and of the API server pods, read
one by one or by node. What is refused or out of reach is a value, because a page has a place for
it: `Refused` says in a sentence which right is missing, `Lost` that nobody answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec

from kscheduler.api.explanation import PlacementReview
from kscheduler.api.resources import Resource

Query = Mapping[str, str]


class Trouble(Exception):  # noqa: N818 - a state of the page, and not always an error
    """No answer; the text is a sentence for the reader."""


class Refused(Trouble):
    """The asker may not: the text names the right."""


class Missing(Trouble):
    """There is no such object; the text says why, if the scheduler knows."""


class Lost(Trouble):
    """Scheduler does not answer at present."""


class Expired(Trouble):
    """What changed since the watch's version cannot be told any more; a list tells how it is."""


class Declined(Trouble):
    """The question cannot be answered as it was asked, or not now."""


class Change(msgspec.Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object as JSON. The first
    one is `OPENED`, which tells that the server watches.
    """

    type: str
    object: msgspec.Raw


OPENED = Change("OPENED", msgspec.Raw(b"{}"))


class Source(Protocol):
    """Reads and reviews with the rights of one user. Every method may raise Trouble."""

    # In words, how the scheduler is reached: "the scheduler of Lease kube-system/kscheduler".
    way: str
    # The namespace that is shown to a user who may not see all of them.
    namespace: str
    # Flags that reach the same cluster with kscheduler's and kubectl's commands.
    flags: str

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes: ...

    async def list(
        self, resource: Resource, namespace: str = "", query: Query | None = None
    ) -> bytes: ...

    def watch(
        self, resource: Resource, namespace: str = "", query: Query | None = None
    ) -> AsyncIterator[Change]:
        """Changes from the query's resourceVersion on, until the server ends the watch; Expired
        if that version is another instance's, or too old.
        """
        ...

    async def review(self, review: PlacementReview, namespace: str) -> PlacementReview: ...
