"""Preferred terms: what the pods around a node are worth, to the pod and to them."""

import numpy as np
import pytest

from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from kscheduler.plugins.inter_pod_affinity.scoring import normalized
from tests.plugins.topologies import (
    PREFERRED,
    REQUIRED,
    make_cluster,
    make_handle,
    make_node,
    make_pod,
    scores,
)

S1, S2 = {"security": "S1"}, {"security": "S2"}


def term(selector, key="region", **more):
    how = "matchExpressions" if isinstance(selector, list) else "matchLabels"
    return {"labelSelector": {how: selector}, "topologyKey": key, **more}


def preferred(*weighted):
    return {PREFERRED: [{"weight": w, "podAffinityTerm": t} for w, t in weighted]}


def required(*terms):
    return {REQUIRED: list(terms)}


def liking(*weighted, name="p", labels=None, **spec):
    return make_pod(name, labels, affinity={"podAffinity": preferred(*weighted)}, **spec)


def disliking(*weighted, name="p", labels=None, **spec):
    return make_pod(name, labels, affinity={"podAntiAffinity": preferred(*weighted)}, **spec)


def on(node, labels=None, name="other", **spec):
    return make_pod(name, labels, nodeName=node, **spec)


def plugin(**args):
    return InterPodAffinity(InterPodAffinityArgs(**args), make_handle())


CHINA = {"region": "China", "az": "az1"}
INDIA = {"region": "India", "az": "az2"}
NODES = [make_node("n0", CHINA), make_node("n1", INDIA), make_node("n2")]
FOUR = [
    make_node("n0", {"region": "China"}),
    make_node("n1", {"az": "az1"}),
    make_node("n2", {"region": "India"}),
    make_node("n3", {"az": "az2"}),
]

NOT_S1 = [
    {"key": "security", "operator": "In", "values": ["S2"]},
    {"key": "security", "operator": "NotIn", "values": ["S1"]},
]
ANY = [
    {"key": "security", "operator": "Exists"},
    {"key": "wrongkey", "operator": "DoesNotExist"},
]
REQUIRES_S1 = {"podAffinity": required(term({"service": "S1"}))}


@pytest.mark.parametrize(
    ("pod", "nodes", "pods", "want"),
    [
        pytest.param(make_pod(labels=S1), NODES, [on("n0", S1)], "Skip", id="nobody cares"),
        pytest.param(
            liking((5, term(S1))),
            NODES,
            [on("n0", S1), on("n1", S2, "b")],
            ([5, 0, 0], [100, 0, 0]),
            id="near to a liked pod",
        ),
        pytest.param(
            liking((8, term(NOT_S1)), (2, term(ANY))),
            NODES,
            [on("n0", S1), on("n1", S2, "b"), on("n2", S1, "c")],
            ([2, 10, 0], [20, 100, 0]),
            id="two terms of different weight",
        ),
        pytest.param(
            liking((5, term(S1))),
            [NODES[0], make_node("n1", CHINA)],
            [on("n0", S1)],
            ([5, 5], [0, 0]),
            id="nodes that are equal get nothing",
        ),
        pytest.param(
            liking((5, term(S1))), NODES, [on("n2", S1)], "Skip", id="a liked pod in no domain"
        ),
        pytest.param(
            liking((5, term(S1))), NODES, [on("n0", S2)], "Skip", id="no pod of the liked kind"
        ),
        pytest.param(
            liking((5, term(S1))),
            NODES,
            [on("n0", S1, namespace="other")],
            "Skip",
            id="a liked pod in another namespace",
        ),
        pytest.param(
            disliking((5, term(S1))),
            NODES,
            [on("n0", S1), on("n1", S1, "b"), on("n1", S1, "c")],
            ([-5, -10, 0], [50, 0, 100]),
            id="away from disliked pods",
        ),
        pytest.param(
            make_pod(labels=S1),
            NODES,
            [liking((7, term(S1)), name="other", nodeName="n1")],
            ([0, 7, 0], [0, 100, 0]),
            id="a pod that likes this one",
        ),
        pytest.param(
            make_pod(labels=S1),
            NODES,
            [disliking((7, term(S1)), name="other", nodeName="n1")],
            ([0, -7, 0], [100, 0, 100]),
            id="a pod that dislikes this one",
        ),
        pytest.param(
            make_pod(
                labels=S2,
                affinity={
                    "podAffinity": preferred((8, term(S1))),
                    "podAntiAffinity": preferred((5, term({"x": "1"}, "az"))),
                },
            ),
            FOUR,
            [
                on("n0", S1),
                on("n1", {"x": "1"}, "b"),
                liking((8, term(S2)), name="c", nodeName="n2"),
                disliking((5, term(S2, "az")), name="d", nodeName="n3"),
            ],
            ([8, -5, 8, -5], [100, 0, 100, 0]),
            id="likes and dislikes of both sides",
        ),
        pytest.param(
            make_pod(labels={"service": "S1"}),
            NODES,
            [on("n0", affinity=REQUIRES_S1), on("n1", name="b", affinity=REQUIRES_S1)],
            ([1, 1, 0], [100, 100, 0]),
            id="a pod that requires this one counts a little",
        ),
        pytest.param(
            make_pod(labels=S1),
            NODES,
            [on("n0", affinity={"podAntiAffinity": required(term(S1))})],
            "Skip",
            id="a pod that must avoid this one is not a matter of score",
        ),
        pytest.param(
            make_pod(labels={"service": "S1"}),
            NODES,
            [
                on(
                    "n0",
                    affinity={"podAffinity": required(term({"service": "S1"}), term({"x": "1"}))},
                )
            ],
            ([1, 0, 0], [100, 0, 0]),
            id="each required term counts by itself",
        ),
        pytest.param(
            make_pod(
                affinity={
                    "podAffinity": preferred((5, term(S1))),
                    "podAntiAffinity": preferred((5, term(S1))),
                }
            ),
            NODES,
            [on("n0", S1)],
            ([0, 0, 0], [0, 0, 0]),
            id="opinions that cancel each other out are still opinions",
        ),
        pytest.param(
            liking((5, term(S1))),
            NODES,
            [on("n0", S1, deleted=True)],
            ([5, 0, 0], [100, 0, 0]),
            id="a pod that is being deleted is still there",
        ),
        pytest.param(
            liking((5, term(S1, namespaceSelector={}))),
            NODES,
            [on("n0", S1, namespace="other")],
            ([5, 0, 0], [100, 0, 0]),
            id="liked in every namespace",
        ),
    ],
)
def test_score(pod, nodes, pods, want):
    assert scores(plugin(), pod, make_cluster(nodes, pods)) == want


def test_without_weight_pods_that_require_this_one_do_not_count():
    cluster = make_cluster(NODES, [on("n0", affinity=REQUIRES_S1)])
    pod = make_pod(labels={"service": "S1"})
    assert scores(plugin(hard_pod_affinity_weight=0), pod, cluster) == "Skip"
    assert scores(plugin(hard_pod_affinity_weight=7), pod, cluster) == ([7, 0, 0], [100, 0, 0])


def test_preferences_of_others_are_ignored_only_for_pods_without_their_own():
    cluster = make_cluster(NODES, [liking((7, term(S1)), name="other", nodeName="n1")])
    ignoring = plugin(ignore_preferred_terms_of_existing_pods=True)
    assert scores(ignoring, make_pod(labels=S1), cluster) == "Skip"
    pod = liking((1, term(S2)), labels=S1)
    assert scores(ignoring, pod, cluster) == ([0, 7, 0], [0, 100, 0])


def test_feasible_nodes_share_domains_with_the_others():
    nodes = [make_node(f"n{i}", CHINA) for i in range(2)] + [make_node("n2", INDIA)]
    cluster = make_cluster(nodes, [on("n0", S1)])
    assert scores(plugin(), liking((5, term(S1))), cluster.take([2, 1])) == ([0, 5], [0, 100])


def test_a_term_that_cannot_be_parsed_is_an_error():
    broken = term([{"key": "app", "operator": "Near"}])
    assert scores(plugin(), liking((5, broken)), make_cluster(NODES)) == (
        "Error",
        "failed to parse pod: preferredAffinityTerms: "
        '"Near" is not a valid label selector operator',
    )


def test_score_without_pre_score_is_an_error():
    with pytest.raises(KschedulerError) as caught:
        plugin().score(CycleState(), make_pod(), make_cluster(NODES))
    assert str(caught.value) == (
        'failed to read "PreScoreInterPodAffinity" from cycleState: not found'
    )


def test_shares_are_divided_before_they_are_multiplied():
    assert normalized(np.array([0, 29, 50])).tolist() == [0, 57, 100]
