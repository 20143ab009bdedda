"""Hard constraints: which nodes a pod may go to so that pods stay evenly spread."""

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kscheduler.state.cache import Cache
from tests.plugins.topologies import (
    HOST,
    ON_BY_DEFAULT,
    ZONE,
    make_cluster,
    make_handle,
    make_node,
    make_pod,
    pre_filter,
    rejections,
)

SKEWED = ("Unschedulable", "node(s) didn't match pod topology spread constraints")
UNLABELLED = (
    "UnschedulableAndUnresolvable",
    "node(s) didn't match pod topology spread constraints (missing required label)",
)
FOO = {"matchLabels": {"foo": ""}}


def constraint(key=ZONE, *, max_skew=1, selector=FOO, when="DoNotSchedule", **more):
    return {
        "topologyKey": key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": when,
        "labelSelector": selector,
        **more,
    }


def spread_pod(*constraints, labels=None, **spec):
    labels = {"foo": ""} if labels is None else labels
    return make_pod(labels=labels, topologySpreadConstraints=list(constraints), **spec)


def foo_pods(*counts, node="n{}", **how):
    """So many pods on n0, n1, …"""
    return [
        make_pod(f"foo-{i}-{j}", {"foo": ""}, nodeName=node.format(i), **how)
        for i, count in enumerate(counts)
        for j in range(count)
    ]


def hosts(*names, **labels):
    return [make_node(name, {HOST: name, **labels}) for name in names]


def plugin(gates=ON_BY_DEFAULT):
    return PodTopologySpread(PodTopologySpreadArgs(), make_handle(gates=gates))


FOUR = hosts("n0", "n1", "n2", "n3")
TWO_ZONES = [
    make_node("n0", {ZONE: "a", HOST: "n0"}),
    make_node("n1", {ZONE: "a", HOST: "n1"}),
    make_node("n2", {ZONE: "b", HOST: "n2"}),
    make_node("n3", {ZONE: "b", HOST: "n3"}),
]


def everyone_but(*names):
    return {f"n{i}": SKEWED for i in range(4) if f"n{i}" not in names}


@pytest.mark.parametrize(
    ("pod", "nodes", "pods", "want"),
    [
        pytest.param(
            spread_pod(constraint(HOST)),
            FOUR,
            foo_pods(2, 1, 0, 3),
            everyone_but("n2"),
            id="only the emptiest host",
        ),
        pytest.param(
            spread_pod(constraint(HOST, max_skew=2)),
            FOUR,
            foo_pods(2, 1, 0, 3),
            everyone_but("n1", "n2"),
            id="a larger skew is tolerated",
        ),
        pytest.param(
            spread_pod(constraint(HOST), labels={}),
            FOUR,
            foo_pods(2, 1, 0, 3),
            everyone_but("n1", "n2"),
            id="a pod that its own selector does not match does not count itself",
        ),
        pytest.param(
            spread_pod(constraint(HOST, max_skew=2, minDomains=4)),
            FOUR[:3],
            foo_pods(2, 2, 1),
            {"n0": SKEWED, "n1": SKEWED},
            id="with too few domains the fewest is nothing",
        ),
        pytest.param(
            spread_pod(constraint(HOST, max_skew=2, minDomains=2)),
            FOUR[:3],
            foo_pods(2, 2, 1),
            {},
            id="enough domains for minDomains",
        ),
        pytest.param(
            spread_pod(constraint(HOST, selector=None)),
            FOUR,
            foo_pods(2, 1, 0, 3),
            {},
            id="no selector matches nobody, not even the pod",
        ),
        pytest.param(
            spread_pod(constraint(HOST, selector={})),
            FOUR,
            foo_pods(2, 1, 0, 3),
            {},
            id="an empty selector counts nobody but the pod",
        ),
        pytest.param(
            spread_pod(constraint(HOST, selector={}, max_skew=1, minDomains=9)),
            FOUR,
            foo_pods(2, 1, 0, 3),
            {},
            id="an empty selector with too few domains",
        ),
        pytest.param(
            spread_pod(constraint(HOST)),
            FOUR,
            foo_pods(2, 1, 1, 1, namespace="other"),
            {},
            id="pods in other namespaces do not count",
        ),
        pytest.param(
            spread_pod(constraint(HOST)),
            FOUR,
            foo_pods(2, 1, 1, 1, deleted=True),
            {},
            id="pods that are being deleted do not count",
        ),
        pytest.param(
            spread_pod(constraint()),
            TWO_ZONES,
            foo_pods(1, 1, 0, 0),
            {"n0": SKEWED, "n1": SKEWED},
            id="a zone is full or free as a whole",
        ),
        pytest.param(
            spread_pod(constraint()),
            [*TWO_ZONES[:2], make_node("n2", {"zoen": "b"})],
            foo_pods(1, 0, 3),
            {"n2": UNLABELLED},
            id="a node without the label, and the pods on it, do not exist",
        ),
        pytest.param(
            spread_pod(constraint("rack")),
            TWO_ZONES,
            [],
            {f"n{i}": UNLABELLED for i in range(4)},
            id="no node has the label",
        ),
        pytest.param(
            spread_pod(constraint(), constraint(HOST)),
            TWO_ZONES,
            foo_pods(1, 0, 0, 1),
            {"n0": SKEWED, "n3": SKEWED},
            id="two constraints, both must be met",
        ),
        pytest.param(
            spread_pod(constraint(), constraint("rack")),
            [*TWO_ZONES[:2], make_node("n2", {ZONE: "b", "rack": "r"})],
            foo_pods(2, 1, 0),
            {"n0": UNLABELLED, "n1": UNLABELLED},
            id="a node counts for a constraint only if it has the labels of all",
        ),
        pytest.param(
            spread_pod(constraint(HOST), constraint("rack")),
            [make_node("n0", {HOST: "n0"}), make_node("n1", {HOST: "n0", "rack": "r"})],
            foo_pods(0, 2),
            {"n0": UNLABELLED},
            id="pods in the only domain are the fewest there are",
        ),
        pytest.param(
            spread_pod(constraint(HOST), constraint("rack")),
            [
                make_node("n0", {HOST: "h"}),
                make_node("n1", {HOST: "h", "rack": "r"}),
                make_node("n2", {HOST: "i", "rack": "r"}),
            ],
            foo_pods(0, 2),
            {"n0": SKEWED, "n1": SKEWED},
            id="the first constraint that fails gives the reason",
        ),
        pytest.param(
            spread_pod(constraint("rack"), constraint(HOST)),
            [
                make_node("n0", {HOST: "h"}),
                make_node("n1", {HOST: "h", "rack": "r"}),
                make_node("n2", {HOST: "i", "rack": "r"}),
            ],
            foo_pods(0, 2),
            {"n0": UNLABELLED, "n1": SKEWED},
            id="be it a missing label",
        ),
        pytest.param(
            spread_pod(
                constraint(HOST),
                constraint(HOST, selector={"matchLabels": {"bar": ""}}, max_skew=9),
            ),
            FOUR,
            [*foo_pods(1, 0, 1, 1), make_pod("bar", {"bar": ""}, nodeName="n1")],
            everyone_but("n1"),
            id="two constraints over the same key keep apart counts",
        ),
        pytest.param(
            spread_pod(constraint(), nodeSelector={"disk": "ssd"}),
            [
                *TWO_ZONES[:2],
                make_node("n2", {ZONE: "b"}),
                make_node("n3", {ZONE: "a", "disk": "ssd"}),
            ],
            foo_pods(1, 0, 0, 1),
            {},
            id="zones that the pod cannot go to are no domains",
        ),
        pytest.param(
            spread_pod(constraint(nodeAffinityPolicy="Ignore"), nodeSelector={"disk": "ssd"}),
            [
                *TWO_ZONES[:2],
                make_node("n2", {ZONE: "b"}),
                make_node("n3", {ZONE: "a", "disk": "ssd"}),
            ],
            foo_pods(1, 0, 0, 1),
            {"n0": SKEWED, "n1": SKEWED, "n3": SKEWED},
            id="unless node affinity is ignored",
        ),
        pytest.param(
            spread_pod(constraint(nodeTaintsPolicy="Honor")),
            [
                make_node("n0", {ZONE: "a"}),
                make_node("n1", {ZONE: "b"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
            ],
            foo_pods(1, 0),
            {},
            id="a tainted zone is no domain where taints are honored",
        ),
        pytest.param(
            spread_pod(constraint(nodeTaintsPolicy="Honor")),
            [
                make_node("n0", {ZONE: "a"}),
                make_node("n1", {ZONE: "b"}, taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
            ],
            foo_pods(1, 0),
            {"n0": SKEWED},
            id="a taint that only discourages does not exclude",
        ),
        pytest.param(
            spread_pod(
                constraint(nodeTaintsPolicy="Honor"),
                tolerations=[{"key": "k", "operator": "Exists"}],
            ),
            [
                make_node("n0", {ZONE: "a"}),
                make_node("n1", {ZONE: "b"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
            ],
            foo_pods(1, 0),
            {"n0": SKEWED},
            id="a tolerated taint does not exclude",
        ),
        pytest.param(
            spread_pod(constraint()),
            [
                make_node("n0", {ZONE: "a"}),
                make_node("n1", {ZONE: "b"}, taints=[{"key": "k", "effect": "NoExecute"}]),
            ],
            foo_pods(1, 0),
            {"n0": SKEWED},
            id="taints are ignored unless honored",
        ),
        pytest.param(
            spread_pod(
                constraint(nodeAffinityPolicy="Ignore"),
                constraint(HOST, max_skew=5),
                nodeSelector={"disk": "ssd"},
            ),
            [
                make_node("n0", {ZONE: "a", HOST: "n0", "disk": "ssd"}),
                make_node("n1", {ZONE: "b", HOST: "n1"}),
            ],
            foo_pods(1, 0),
            {"n0": SKEWED},
            id="policies may differ between constraints of a pod",
        ),
        pytest.param(
            spread_pod(
                constraint(HOST, matchLabelKeys=["rev", "absent"]), labels={"foo": "", "rev": "2"}
            ),
            FOUR[:2],
            [
                *foo_pods(3, 0),
                make_pod("same", {"foo": "", "rev": "2"}, nodeName="n1"),
            ],
            {"n1": SKEWED},
            id="matchLabelKeys narrow the selector to pods with the same values",
        ),
        pytest.param(
            spread_pod(
                constraint(HOST, matchLabelKeys=["rev"], selector={}),
                labels={"foo": "", "rev": "2"},
            ),
            FOUR[:2],
            [make_pod("same", {"rev": "2"}, nodeName="n1")],
            {"n1": SKEWED},
            id="matchLabelKeys narrow an empty selector too",
        ),
        pytest.param(
            spread_pod(constraint(HOST, matchLabelKeys=["foo"], selector=None)),
            FOUR,
            foo_pods(2, 1, 0, 3),
            {},
            id="matchLabelKeys do not make a missing selector match",
        ),
        pytest.param(
            spread_pod(constraint(HOST, when="ScheduleAnyway")),
            FOUR,
            foo_pods(2, 1, 0, 3),
            "Skip",
            id="a soft constraint forbids nothing",
        ),
        pytest.param(make_pod(), FOUR, foo_pods(2, 1, 0, 3), "Skip", id="no constraint"),
    ],
)
def test_filter(pod, nodes, pods, want):
    assert rejections(plugin(), pod, make_cluster(nodes, pods)) == want


def test_match_label_keys_can_be_switched_off():
    pod = spread_pod(constraint(HOST, matchLabelKeys=["rev"]), labels={"foo": "", "rev": "2"})
    cluster = make_cluster(FOUR[:2], foo_pods(1, 0))
    assert rejections(plugin(), pod, cluster) == {}
    assert rejections(plugin(gates=()), pod, cluster) == {"n0": SKEWED}


def test_tolerations_compare_numbers_only_behind_their_gate():
    tolerations = [{"key": "level", "operator": "Gt", "value": "3", "effect": "NoSchedule"}]
    pod = spread_pod(constraint(nodeTaintsPolicy="Honor"), tolerations=tolerations)
    taints = [{"key": "level", "value": "5", "effect": "NoSchedule"}]
    nodes = [make_node("n0", {ZONE: "a"}), make_node("n1", {ZONE: "b"}, taints=taints)]
    cluster = make_cluster(nodes, foo_pods(1, 0))
    assert rejections(plugin(), pod, cluster) == {}
    gates = ("TaintTolerationComparisonOperators",)
    assert rejections(plugin(gates), pod, cluster) == {"n0": SKEWED}


def test_what_is_remembered_of_nodes_follows_their_changes():
    asked = plugin()
    pod = spread_pod(constraint(nodeTaintsPolicy="Honor"))
    taint = {"key": "k", "effect": "NoSchedule"}
    versions = [
        make_node("n1", {ZONE: "b"}),
        make_node("n1", {ZONE: "b"}, taints=[taint]),
        make_node("n1", {ZONE: "a"}),
        make_node("n1"),
    ]
    cache = Cache()
    cache.add_node(make_node("n0", {ZONE: "a"}))
    cache.add_pod(make_pod("foo", {"foo": ""}, nodeName="n0"))
    seen = []
    for node in versions:
        cache.update_node(node)
        seen.append(rejections(asked, pod, cache.snapshot()))
    assert seen == [{"n0": SKEWED}, {}, {}, {"n1": UNLABELLED}]


def test_a_pod_waiting_for_a_resize_is_left_alone_behind_its_gate():
    deferred = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    pod = spread_pod(constraint("rack"), status={"conditions": [deferred]})
    gates = ("InPlacePodVerticalScalingSchedulerPreemption",)
    cluster = make_cluster(FOUR)
    assert rejections(plugin(gates), pod, cluster) == "Skip"
    assert rejections(plugin(), pod, cluster) == {f"n{i}": UNLABELLED for i in range(4)}


def test_a_selector_that_cannot_be_parsed_is_an_error():
    broken = {"matchExpressions": [{"key": "foo", "operator": "Near"}]}
    pod = spread_pod(constraint(selector=broken))
    assert rejections(plugin(), pod, make_cluster(FOUR)) == (
        "Error",
        "get constraints from pod: obtaining pod's hard topology spread constraints: "
        '"Near" is not a valid label selector operator',
    )


def test_filter_without_pre_filter_is_an_error():
    found = rejections(plugin(), make_pod(), make_cluster(FOUR[:1]), CycleState())
    text = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
    assert found == {"n0": ("Error", text)}


def test_following_a_pod_without_pre_filter_is_an_error():
    cluster = make_cluster(FOUR[:1])
    status = plugin().add_pod(CycleState(), make_pod(), make_pod("x"), 0, cluster)
    text = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
    assert (status.code.text, status.message) == ("Error", text)


class TestWhatIf:
    """Pods added to or removed from one node, without a second PreFilter."""

    cluster = make_cluster(FOUR, foo_pods(2, 1, 0, 3))
    pod = spread_pod(constraint(HOST))

    def cycle(self, pod=None):
        return pre_filter(plugin(), pod or self.pod, self.cluster)

    def rejected(self, cycle, pod=None):
        return rejections(plugin(), pod or self.pod, self.cluster, cycle)

    def add(self, cycle, pod, row):
        plugin().add_pod(cycle, self.pod, pod, row, self.cluster)

    def remove(self, cycle, pod, row):
        plugin().remove_pod(cycle, self.pod, pod, row, self.cluster)

    def test_an_added_pod_raises_the_fewest(self):
        cycle = self.cycle()
        self.add(cycle, make_pod("new", {"foo": ""}), 2)
        assert self.rejected(cycle) == everyone_but("n1", "n2")

    def test_a_removed_pod_makes_room(self):
        cycle = self.cycle()
        for name in ("foo-3-0", "foo-3-1", "foo-3-2"):
            self.remove(cycle, make_pod(name, {"foo": ""}), 3)
        assert self.rejected(cycle) == everyone_but("n2", "n3")

    def test_every_change_counts_at_once(self):
        cycle, new = self.cycle(), make_pod("new", {"foo": ""})
        seen = [self.rejected(cycle)]
        self.add(cycle, new, 2)
        seen.append(self.rejected(cycle))
        self.remove(cycle, new, 2)
        seen.append(self.rejected(cycle))
        assert seen == [everyone_but("n2"), everyone_but("n1", "n2"), everyone_but("n2")]

    def test_a_clone_goes_its_own_way(self):
        cycle = self.cycle()
        self.add(cycle.clone(), make_pod("new", {"foo": ""}), 2)
        assert self.rejected(cycle) == everyone_but("n2")

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(make_pod("new", {"foo": ""}, namespace="other"), id="other namespace"),
            pytest.param(make_pod("new", {"bar": ""}), id="other labels"),
        ],
    )
    def test_an_unrelated_pod_changes_nothing(self, other):
        cycle = self.cycle()
        self.add(cycle, other, 2)
        self.remove(cycle, other, 3)
        assert self.rejected(cycle) == everyone_but("n2")

    def test_a_node_that_takes_no_part_changes_nothing(self):
        pod = spread_pod(constraint(), nodeSelector={"disk": "ssd"})
        nodes = [make_node("n0", {ZONE: "a", "disk": "ssd"}), make_node("n1", {ZONE: "b"})]
        cluster = make_cluster(nodes, foo_pods(1, 0))
        cycle = pre_filter(plugin(), pod, cluster)
        plugin().add_pod(cycle, pod, make_pod("new", {"foo": ""}), 1, cluster)
        assert rejections(plugin(), pod, cluster, cycle) == {}

    def test_a_pod_that_is_being_deleted_counts_here(self):
        cycle = self.cycle()
        self.add(cycle, make_pod("new", {"foo": ""}, deleted=True), 2)
        assert self.rejected(cycle) == everyone_but("n1", "n2")

    def test_an_empty_selector_matches_here(self):
        pod = spread_pod(constraint(HOST, selector={}))
        cycle = self.cycle(pod)
        self.remove(cycle, make_pod("foo-3-0", {"foo": ""}), 3)
        assert self.rejected(cycle, pod) == everyone_but("n3")
