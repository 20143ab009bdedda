"""Resources as discovery, tables and errors look at them; each server declares its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kscheduler.rest.tables import Column


class ServedSubresource(Protocol):
    """A part of an object with a path and verbs of its own; empty texts are the resource's."""

    @property
    def name(self) -> str: ...
    @property
    def verbs(self) -> Sequence[str]: ...
    @property
    def kind(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...


class ServedResource(Protocol):
    """One kind behind one REST collection."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def namespaced(self) -> bool: ...
    @property
    def short_names(self) -> Sequence[str]: ...
    @property
    def categories(self) -> Sequence[str]: ...
    @property
    def verbs(self) -> Sequence[str]: ...
    @property
    def subresources(self) -> Sequence[ServedSubresource]: ...
    @property
    def field_labels(self) -> Mapping[str, str]:
        """Field selectors beyond name and namespace: label -> path in the object."""

    @property
    def columns(self) -> Sequence[Column]:
        """Columns of `kubectl get`."""

    @property
    def group_version(self) -> str:
        """`coordination.k8s.io/v1`, or `v1` in the core group."""

    @property
    def qualified(self) -> str:
        """`leases.coordination.k8s.io`, or the bare plural in the core group."""

    @property
    def singular(self) -> str: ...
    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection, or of one object in it."""
