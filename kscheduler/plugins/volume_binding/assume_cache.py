"""Objects as they will be once what was decided has been written; until then, as they are.

A decision changes an object here first, so that the next one sees it changed. The change holds
until the server tells of a newer version than the one it was made from: that knows better. News
that are older than that change nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from kscheduler import logs
from kscheduler.api.meta import ApiObject
from kscheduler.errors import KschedulerError, MissingError
from kscheduler.framework.listers import FollowedLister

T = TypeVar("T", bound=ApiObject)


class OutOfSyncError(KschedulerError):
    """Raised for a change that was made from another version than the one we know."""


class AssumeCache(Generic[T]):
    """`log_name` stands as "logger" in its log lines, `plural` in its errors."""

    def __init__(self, lister: FollowedLister[T], plural: str, log_name: str) -> None:
        self._lister = lister
        self._plural = plural
        self._log = logs.logger(__name__, log_name)
        self._assumed: dict[str, T] = {}
        lister.add_handler(self)

    def __len__(self) -> int:
        """How many objects are assumed to be other than they are known."""
        return len(self._assumed)

    def get(self, key: str) -> T | None:
        known = self._lister.get(key)
        return None if known is None else self.current(known)

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """Found as they are known, given as they are assumed."""
        known = self._lister.by_index(name, value)
        return [self.current(one) for one in known] if self._assumed else list(known)

    def current(self, known: T) -> T:
        """What is assumed of an object that is known like this."""
        assumed = self._assumed.get(known.key)
        return known if assumed is None or _is_newer(known, assumed) else assumed

    def as_told(self, key: str) -> T | None:
        """As the server told it, whatever is assumed."""
        return self._lister.get(key)

    def known(self, key: str) -> T:
        """The same of what must be there; raises MissingError."""
        found = self._lister.get(key)
        if found is None:
            raise MissingError(f"{self._plural} {logs.quote(key)} not found")
        return found

    def assume(self, changed: T) -> None:
        key = changed.key
        known = self.known(key)
        if not _same_version(known, changed):
            stored, assumed = _version(known), _version(changed)
            raise OutOfSyncError(
                f"{logs.quote(key)} is out of sync (stored: {stored}, assume: {assumed})"
            )
        self._assumed[key] = changed
        if v := self._log.v(4):
            v.info("Assumed object", key=key, version=_version(changed))

    def restore(self, changed: T) -> None:
        """Forget a change of this version; one made from another version stays."""
        assumed = self._assumed.get(changed.key)
        if assumed is not None and _same_version(assumed, changed):
            del self._assumed[changed.key]
            if v := self._log.v(4):
                v.info("Restored object", key=changed.key, version=_version(changed))

    def on_add(self, item: T, *, is_initial: bool) -> None:
        self._expire(item)

    def on_update(self, old: T, new: T) -> None:
        self._expire(new)

    def on_delete(self, item: T, *, final_state_unknown: bool) -> None:
        self._assumed.pop(item.key, None)

    def _expire(self, told: T) -> None:
        if not self._assumed:
            return
        assumed = self._assumed.get(told.key)
        if assumed is not None and _is_newer(told, assumed):
            del self._assumed[told.key]
            if v := self._log.v(4):
                versions = {"newVersion": _version(told), "version": _version(assumed)}
                v.info("assumed object expired", key=told.key, **versions)


def _version(item: ApiObject) -> str:
    return item.metadata.resource_version


def _same_version(one: ApiObject, other: ApiObject) -> bool:
    return _version(one) == _version(other)


def _is_newer(one: ApiObject, other: ApiObject) -> bool:
    """By version; if those are no numbers, whatever differs is newer."""
    version, than = _version(one), _version(other)
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
