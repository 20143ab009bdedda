"""One extender: an HTTP service that filters, scores, preempts or binds beside the plugins.

Mirrors HTTPExtender of pkg/scheduler/extender.go. Differs: nodes that an extender hands back as
objects are taken as names, so that later stages see the nodes as they are and not as empty ones;
and a name it was not asked about is refused in that form of answer, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from kscheduler.config.model import Extender as ExtenderConfig
from kscheduler.errors import KschedulerError
from kscheduler.gotext.json_text import is_finished
from kscheduler.gotext.strconv import quote
from kscheduler.runtime.extenders import messages
from kscheduler.runtime.extenders.messages import HostPriority, Victims
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class ExtenderError(KschedulerError):
    """An extender's answer does not fit the question."""


class Wire(Protocol):
    """A connection to an extender. Raises KschedulerError if there is none, or no answer."""

    async def ask(
        self,
        verb: str,
        question: bytes,
        /,
        *,
        repeatable: bool,
        is_complete: Callable[[bytes], bool],
    ) -> bytes:
        """The answer; if it breaks off, as much of it as `is_complete` accepts."""


class FilterResult(NamedTuple):
    """Names of nodes that pass, and by name why others do not."""

    names: Sequence[str]
    failed: Mapping[str, str]
    failed_and_unresolvable: Mapping[str, str]


class Extender:
    """Its calls raise KschedulerError; `is_ignorable` says whether that matters."""

    def __init__(self, config: ExtenderConfig, wire: Wire) -> None:
        self._config = config
        self._wire = wire
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self.name = config.url_prefix
        self.weight = config.weight
        self.is_ignorable = config.ignorable
        self.filters = bool(config.filter_verb)
        self.prioritizes = bool(config.prioritize_verb)
        self.preempts = bool(config.preempt_verb)
        self.binds = bool(config.bind_verb)

    def is_interested(self, pod: PodInfo) -> bool:
        """Whether the pod uses a resource that the extender manages; if it manages none in
        particular, it is interested in every pod.
        """
        if not self._managed:
            return True
        spec = pod.pod.spec
        return any(
            not self._managed.isdisjoint(amounts)
            for container in chain(spec.containers, spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
        )

    async def filter(self, pod: PodInfo, nodes: Nodes) -> FilterResult:
        config = self._config
        answer = await self._send(config.filter_verb, self._extender_args(pod, nodes))
        names, listed, failed, unresolvable = messages.filter_result(answer)
        if not config.node_cache_capable or names is None:
            names = listed or ()
        known = set(nodes.names)
        for name in names:
            if name not in known:
                raise ExtenderError(
                    f"extender {quote(self.name)} claims a filtered node {quote(name)} "
                    "which is not found in the input node list"
                )
        return FilterResult(names, failed, unresolvable)

    async def prioritize(self, pod: PodInfo, nodes: Nodes) -> list[HostPriority]:
        args = self._extender_args(pod, nodes)
        return messages.host_priority_list(await self._send(self._config.prioritize_verb, args))

    def _extender_args(self, pod: PodInfo, nodes: Nodes) -> bytes:
        if self._config.node_cache_capable:
            return messages.extender_args_by_name(pod.pod, nodes.names)
        return messages.extender_args(pod.pod, map(nodes.node, range(len(nodes))))

    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], nodes: Nodes
    ) -> dict[str, Victims]:
        """Of these nodes those where the pod may preempt, perhaps with other victims."""
        if self._config.node_cache_capable:
            args = messages.extender_preemption_args_by_uid(pod.pod, victims)
        else:
            args = messages.extender_preemption_args(pod.pod, victims)
        result = messages.preemption_result(await self._send(self._config.preempt_verb, args))
        chosen = {}
        for name, (uids, num_pdb_violations) in result.items():
            row = nodes.row_of(name)
            if row is None:
                raise ExtenderError(f"nodeinfo not found for node name {quote(name)}")
            there = {pod.uid: pod for pod in nodes.occupancy.pods(row)}
            for uid in uids:
                if uid not in there:
                    raise ExtenderError(
                        f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: "
                        f"{name}, but the pod is not found on that node"
                    )
            chosen[name] = Victims([there[uid] for uid in uids], num_pdb_violations)
        return chosen

    async def bind(self, pod: PodInfo, node: str) -> None:
        args = messages.extender_binding_args(pod, node)
        answer = await self._send(self._config.bind_verb, args, repeatable=False)
        messages.check_binding_result(answer)

    async def _send(self, verb: str, args: bytes, *, repeatable: bool = True) -> bytes:
        return await self._wire.ask(verb, args, repeatable=repeatable, is_complete=is_finished)
