"""One extender: a service outside that has a say in scheduling.

Mirrors HTTPExtender of pkg/scheduler/extender.go. Differs: nodes that an extender hands back as
objects are taken as names, so that later stages see the nodes as they are and not as empty ones;
and a name it was not asked about is refused in that form of answer, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from kscheduler.config.model import Extender as ExtenderConfig
from kscheduler.errors import KschedulerError
from kscheduler.gotext.json_text import is_finished
from kscheduler.logs import quote
from kscheduler.runtime.extenders import answers, questions
from kscheduler.runtime.extenders.answers import ChosenVictims, HostPriority
from kscheduler.runtime.extenders.questions import Victims
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo


class ExtenderError(KschedulerError):
    """An extender's answer does not fit the question."""


class Wire(Protocol):
    """How an extender is reached. Raises KschedulerError when it is not, or does not answer."""

    async def ask(
        self,
        verb: str,
        question: bytes,
        /,
        *,
        repeatable: bool,
        enough: Callable[[bytes], bool],
    ) -> bytes:
        """The answer; as much of it as is `enough`, if it breaks off then."""


class Passed(NamedTuple):
    """The nodes an extender lets through, and why it rejects others, by name."""

    names: Sequence[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Extender:
    """Its questions raise KschedulerError; `is_ignorable` says whether that matters."""

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

    def is_interested_in(self, pod: PodInfo) -> bool:
        """Whether the pod asks for a resource that the extender looks after; if that is none in
        particular, every pod is its concern.
        """
        return not self._managed or not self._managed.isdisjoint(_resources_of(pod))

    async def filter(self, pod: PodInfo, nodes: Nodes) -> Passed:
        config = self._config
        answer = await self._ask(config.filter_verb, self._about(pod, nodes))
        names, listed, failed, unresolvable = answers.filter_answer(answer)
        if not config.node_cache_capable or names is None:
            names = listed or ()
        asked = set(nodes.names)
        for name in names:
            if name not in asked:
                raise ExtenderError(
                    f"extender {quote(self.name)} claims a filtered node {quote(name)} "
                    "which is not found in the input node list"
                )
        return Passed(names, failed, unresolvable)

    async def prioritize(self, pod: PodInfo, nodes: Nodes) -> list[HostPriority]:
        question = self._about(pod, nodes)
        return answers.priorities(await self._ask(self._config.prioritize_verb, question))

    def _about(self, pod: PodInfo, nodes: Nodes) -> bytes:
        if self._config.node_cache_capable:
            return questions.about_names(pod.pod, nodes.names)
        return questions.about_nodes(pod.pod, map(nodes.node, range(len(nodes))))

    async def choose_victims(
        self, pod: PodInfo, victims: Mapping[str, Victims], nodes: Nodes
    ) -> dict[str, Victims]:
        """Of these nodes those that may be emptied, perhaps at the cost of other pods."""
        by_uid = self._config.node_cache_capable
        about = questions.about_victim_uids if by_uid else questions.about_victims
        answer = await self._ask(self._config.preempt_verb, about(pod.pod, victims))
        chosen = answers.chosen_victims(answer)
        return {name: self._found(name, one, nodes) for name, one in chosen.items()}

    def _found(self, name: str, chosen: ChosenVictims, nodes: Nodes) -> Victims:
        row = nodes.row_of(name)
        if row is None:
            raise ExtenderError(f"nodeinfo not found for node name {quote(name)}")
        there = {pod.uid: pod for pod in nodes.occupancy.pods(row)}
        for uid in chosen.pods:
            if uid not in there:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: "
                    f"{name}, but the pod is not found on that node"
                )
        return Victims([there[uid] for uid in chosen.pods], chosen.violations)

    async def bind(self, pod: PodInfo, node: str) -> None:
        question = questions.about_binding(pod, node)
        answers.check_binding(await self._ask(self._config.bind_verb, question, repeatable=False))

    async def _ask(self, verb: str, question: bytes, *, repeatable: bool = True) -> bytes:
        return await self._wire.ask(verb, question, repeatable=repeatable, enough=is_finished)


def _resources_of(pod: PodInfo) -> Iterable[str]:
    spec = pod.pod.spec
    for container in chain(spec.containers, spec.init_containers):
        yield from container.resources.requests
        yield from container.resources.limits
