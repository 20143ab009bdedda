"""Work grows with the pod, not with its square, and what others say about labels that no node has
costs a pod nothing.

Lines of Python and bytes are counted, so no figure here depends on the machine.
"""

from types import SimpleNamespace

import pytest

from kscheduler.api.core import Namespace, Service
from kscheduler.api.decode import convert
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from kscheduler.plugins.node_affinity.args import NodeAffinityArgs
from kscheduler.plugins.node_affinity.plugin import NodeAffinity
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.constraints import DefaultSelector
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from tests.adversary.work import work_of
from tests.plugins.topologies import (
    HOST,
    PREFERRED,
    REQUIRED,
    ZONE,
    make_cluster,
    make_handle,
    make_node,
    make_pod,
)

pytestmark = pytest.mark.slow

NODES = 24
PRESENT = 120


def cluster(pods=(), keys=2):
    """Each node has a host, a zone and labels of so many other keys."""
    nodes = [
        make_node(
            f"n{number}",
            {
                HOST: f"n{number}",
                ZONE: f"z{number % 3}",
                **{f"have-{key}": f"{(number + key) % 5}" for key in range(keys)},
            },
        )
        for number in range(NODES)
    ]
    return make_cluster(nodes, pods)


def attempt(plugin, pod, nodes):
    """Everything a plugin does about a pod, from the first to the last extension point."""
    cycle = CycleState()
    if not hasattr(plugin, "pre_filter") or plugin.pre_filter(cycle, pod, nodes) is None:
        for rejection in plugin.filter(cycle, pod, nodes):
            rejection.mask.any()
    if plugin.pre_score(cycle, pod, nodes) is None:
        scores = plugin.score(cycle, pod, nodes)
        plugin.normalize(cycle, pod, scores, nodes)


def spread():
    return PodTopologySpread(PodTopologySpreadArgs(), make_handle())


def affinity(namespaces=0):
    objects = [
        convert({"metadata": {"name": f"ns{n}", "labels": {"name": f"ns{n}"}}}, Namespace)
        for n in range(namespaces)
    ]
    return InterPodAffinity(InterPodAffinityArgs(), make_handle(objects))


def node_affinity():
    return NodeAffinity(NodeAffinityArgs(), make_handle())


def absent(number):
    return f"absent-{number}"


def present(number):
    return f"have-{number}"


def app(number):
    return {"matchLabels": {"app": f"a{number}"}}


def anyone_but(number):
    return {"matchExpressions": [{"key": f"k{number}", "operator": "NotIn", "values": ["v"]}]}


def spread_over(size, key, when="DoNotSchedule", selector=app, **more):
    constraint = {"maxSkew": 1, "whenUnsatisfiable": when, **more}
    return make_pod(
        labels={"app": "a1", "rev": "1"},
        topologySpreadConstraints=[
            {**constraint, "topologyKey": key(number), "labelSelector": selector(number)}
            for number in range(size)
        ],
    )


def terms(size, key, selector=app, **more):
    return [
        {"topologyKey": key(number), "labelSelector": selector(number), **more}
        for number in range(size)
    ]


def weighted(terms):
    return [
        {"weight": 1 + number % 100, "podAffinityTerm": term} for number, term in enumerate(terms)
    ]


def requiring(kind, terms, **more):
    return make_pod(labels={"app": "a1"}, affinity={kind: {REQUIRED: terms}}, **more)


def preferring(kind, terms, **more):
    return make_pod(labels={"app": "a1"}, affinity={kind: {PREFERRED: weighted(terms)}}, **more)


def by_name(number):
    values = [f"ns{number}"]
    return {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": values}]}


def selecting_namespaces(size):
    listed = [
        {"topologyKey": ZONE, "labelSelector": app(1), "namespaceSelector": by_name(number)}
        for number in range(size)
    ]
    return requiring("podAntiAffinity", listed)


def on_nodes(size, make):
    selector = {"nodeSelectorTerms": [make(number) for number in range(size)]}
    return make_pod(affinity={"nodeAffinity": {REQUIRED: selector}})


def liking_nodes(size, make):
    listed = [{"weight": 1, "preference": make(number)} for number in range(size)]
    return make_pod(affinity={"nodeAffinity": {PREFERRED: listed}})


def has(number):
    return {"matchExpressions": [{"key": absent(number), "operator": "Exists"}]}


def lacks(number):
    return {"matchExpressions": [{"key": absent(number), "operator": "DoesNotExist"}]}


def not_named(number):
    values = [f"x{number}"]
    return {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": values}]}


def above(number):
    return {"matchExpressions": [{"key": HOST, "operator": "Gt", "values": [str(number)]}]}


def one_of_many(size):
    values = [f"x{number}" for number in range(size)]
    term = {"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": values}]}
    return on_nodes(1, lambda _: term)


HOSTILE = [
    pytest.param(spread, lambda n: spread_over(n, absent), id="spread over absent keys"),
    pytest.param(spread, lambda n: spread_over(n, present), id="spread over keys nodes have"),
    pytest.param(
        spread, lambda n: spread_over(n, absent, "ScheduleAnyway"), id="soft spread, absent"
    ),
    pytest.param(
        spread,
        lambda n: spread_over(n, present, "ScheduleAnyway", anyone_but),
        id="soft spread, present, of all pods",
    ),
    pytest.param(
        spread,
        lambda n: spread_over(n, present, matchLabelKeys=["rev"], nodeTaintsPolicy="Honor"),
        id="spread with matchLabelKeys and taints",
    ),
    pytest.param(
        spread,
        lambda n: spread_over(n, lambda i: absent(i) if i == n - 1 else present(i)),
        id="spread, the last key is absent",
    ),
    pytest.param(
        affinity, lambda n: requiring("podAntiAffinity", terms(n, absent)), id="away, absent keys"
    ),
    pytest.param(
        affinity,
        lambda n: requiring("podAntiAffinity", terms(n, lambda _: HOST)),
        id="away, distinct selectors",
    ),
    pytest.param(
        affinity,
        lambda n: requiring(
            "podAntiAffinity", terms(n, lambda _: ZONE, anyone_but, namespaceSelector={})
        ),
        id="away from all pods",
    ),
    pytest.param(
        affinity, lambda n: requiring("podAffinity", terms(n, absent)), id="near, absent keys"
    ),
    pytest.param(
        affinity,
        lambda n: requiring("podAffinity", terms(n, present, lambda _: app(1))),
        id="near, keys nodes have",
    ),
    pytest.param(
        affinity, lambda n: preferring("podAffinity", terms(n, absent)), id="likes, absent keys"
    ),
    pytest.param(
        affinity,
        lambda n: preferring("podAntiAffinity", terms(n, present, anyone_but)),
        id="dislikes all pods",
    ),
    pytest.param(lambda: affinity(200), selecting_namespaces, id="namespace selectors"),
    pytest.param(node_affinity, lambda n: on_nodes(n, has), id="node affinity, Exists"),
    pytest.param(node_affinity, lambda n: on_nodes(n, lacks), id="node affinity, DoesNotExist"),
    pytest.param(node_affinity, lambda n: on_nodes(n, above), id="node affinity, Gt"),
    pytest.param(node_affinity, lambda n: on_nodes(n, not_named), id="node affinity, matchFields"),
    pytest.param(node_affinity, one_of_many, id="node affinity, many values"),
    pytest.param(node_affinity, lambda n: liking_nodes(n, has), id="node preference, Exists"),
    pytest.param(node_affinity, lambda n: liking_nodes(n, above), id="node preference, Gt"),
    pytest.param(
        node_affinity,
        lambda n: make_pod(nodeSelector={absent(number): "x" for number in range(n)}),
        id="nodeSelector",
    ),
]


@pytest.mark.parametrize(("make_plugin", "make"), HOSTILE)
def test_an_attempt_costs_no_more_than_in_proportion_to_the_pod(make_plugin, make):
    others = [
        make_pod(f"p{n}", {"app": f"a{n}"}, nodeName=f"n{n}", namespace="default")
        for n in range(NODES)
    ]

    def work(size):
        pod, plugin, nodes = make(size), make_plugin(), cluster(others, PRESENT)
        return work_of(lambda: attempt(plugin, pod, nodes))

    # Selectors are compiled once for all.
    work(PRESENT)
    assert work(PRESENT).ratio(work(PRESENT // 2)) < 2.5


@pytest.mark.parametrize(
    ("make_plugin", "make"),
    [
        pytest.param(
            affinity,
            lambda n: requiring("podAntiAffinity", terms(n, absent, anyone_but)),
            id="required anti-affinity over absent keys",
        ),
        pytest.param(
            affinity,
            lambda n: preferring("podAffinity", terms(n, absent, anyone_but)),
            id="preferred affinity over absent keys",
        ),
        pytest.param(
            affinity,
            lambda n: requiring("podAntiAffinity", terms(n, lambda _: HOST)),
            id="required anti-affinity that means others",
        ),
        pytest.param(
            affinity,
            lambda n: requiring(
                "podAntiAffinity", terms(n, lambda _: HOST, anyone_but, namespaces=["elsewhere"])
            ),
            id="required anti-affinity that means other namespaces",
        ),
        pytest.param(
            affinity,
            lambda n: requiring("podAffinity", terms(n, present)),
            id="required affinity over keys nodes have, that means others",
        ),
        pytest.param(spread, lambda n: spread_over(n, present), id="spread"),
    ],
)
def test_a_pod_that_runs_costs_others_nothing(make_plugin, make):
    """However much it says, as long as it says nothing about them."""

    def work(size):
        running = make(size).assigned_to("n0")
        nodes = cluster([running], PRESENT)
        plugin, innocent = make_plugin(), make_pod("i", {"tier": "front"})
        return work_of(lambda: attempt(plugin, innocent, nodes))

    work(1)
    assert work(PRESENT).ratio(work(4)) < 1.2


def test_services_of_other_namespaces_cost_nothing():
    def work(size):
        listed = {
            f"s{number}": convert(
                {
                    "metadata": {"name": f"s{number}", "namespace": f"ns{number}"},
                    "spec": {"selector": {"app": "x"}},
                },
                Service,
            )
            for number in range(size)
        }
        lister = Indexed(listed)
        selector = DefaultSelector(SimpleNamespace(lister=lambda kind: lister))
        pod = make_pod(labels={"app": "x"}, namespace="ns7")
        return work_of(lambda: selector.of(pod))

    work(10)
    assert work(1000).ratio(work(10)) < 1.2


class Indexed:
    """A lister with an index, as informers have it."""

    generation = 0

    def __init__(self, objects):
        self._objects = objects

    def add_index(self, name, function):
        self._index = {}
        for item in self._objects.values():
            for value in function(item):
                self._index.setdefault(value, []).append(item)

    def by_index(self, name, value):
        return self._index.get(value, [])


def test_hints_about_a_pod_with_many_terms_cost_each_waiting_pod_a_look():
    def work(size):
        plugin = affinity()
        (hint,) = (
            one.hint for one in plugin.events_to_register() if one.event.resource == "AssignedPod"
        )
        gone = requiring("podAntiAffinity", terms(size, lambda _: ZONE)).assigned_to("n0")
        waiting = [make_pod(f"w{number}", {"app": f"w{number}"}) for number in range(size)]
        return work_of(lambda: [hint(pod, gone, None) for pod in waiting])

    work(10)
    assert work(400).ratio(work(200)) < 2.5


def test_hints_about_a_node_cost_a_pod_with_many_terms_a_look():
    node = make_node("n", {"absent-3": "x", HOST: "n"})

    def work(size):
        plugin, pod = node_affinity(), on_nodes(size, lambda n: has(n + 10))
        (registered,) = plugin.events_to_register()
        registered.hint(pod, None, node)
        return work_of(lambda: registered.hint(pod, None, node))

    work(10)
    assert work(1000).ratio(work(10)) < 1.2
