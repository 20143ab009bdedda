"""Namespaces: Active, then Terminating, then gone when their content is."""

from __future__ import annotations

from kscheduler.sandbox.store import Object
from kscheduler.sandbox.strategy import Strategy

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


def _default(namespace: Object) -> None:
    about = namespace["metadata"]
    if name := about.get("name"):
        about["labels"] = {**(about.get("labels") or {}), NAME_LABEL: name}


def _prepare_create(namespace: Object) -> None:
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


def _prepare_update(namespace: Object, old: Object) -> None:
    namespace["spec"] = old.get("spec", {})


STRATEGY = Strategy(
    default=_default,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    initial_status=lambda: {"phase": "Active"},
)
