"""Aggregated cluster roles: their rules are those of all cluster roles with certain labels.

Mirrors pkg/controller/clusterroleaggregation. `admin`, `edit` and `view` are made like this, so
that an API that is added can say what they mean for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kscheduler.api.decode import convert
from kscheduler.api.labels import compile_selector
from kscheduler.api.meta import LabelSelector
from kscheduler.sandbox.controllers.controller import Controller
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import BY_NAME
from kscheduler.sandbox.store import Change, Key, Listener, Object

CLUSTER_ROLES = BY_NAME["clusterroles.rbac.authorization.k8s.io"]


class ClusterRoleAggregationController(Controller):
    """Keeps the rules of cluster roles that have an aggregation rule."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._aggregated: dict[Key, None] = {}  # an ordered set

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return ((CLUSTER_ROLES, self._role_changed),)

    def _role_changed(self, change: Change) -> None:
        """Any role may be a part of any that is aggregated, and of these there are few."""
        key = change.stored.key
        if change.type != "DELETED" and change.stored.decode().get("aggregationRule"):
            self._aggregated[key] = None
        else:
            self._aggregated.pop(key, None)
        for one in self._aggregated:
            self.mark(one)

    def sync(self, key: Key) -> None:
        role = self.find(CLUSTER_ROLES, key)
        if role is None or not role.get("aggregationRule"):
            return
        rules = self._rules_of_parts(role)
        if rules != (role.get("rules") or []):
            self.edit(CLUSTER_ROLES, role, lambda item: item.update(rules=rules))

    def _rules_of_parts(self, role: Object) -> list[dict[str, Any]]:
        """Every rule once, by the order of the roles that have them."""
        wanted = [
            compile_selector(convert(one, LabelSelector))
            for one in role["aggregationRule"].get("clusterRoleSelectors") or ()
        ]
        rules: list[dict[str, Any]] = []
        for stored in sorted(self._registry.collection(CLUSTER_ROLES), key=lambda one: one.key):
            if stored.key[1] == role["metadata"]["name"]:
                continue
            if any(selector.matches(stored.labels) for selector in wanted):
                rules += [one for one in stored.decode().get("rules") or () if one not in rules]
        return rules
