"""Required terms: which nodes are near the pods a pod wants, and far from those it does not."""

import pytest

from kscheduler.api.core import Namespace
from kscheduler.api.decode import convert
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedLister
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from tests.plugins.topologies import (
    HOST,
    ON_BY_DEFAULT,
    REQUIRED,
    ZONE,
    make_cluster,
    make_handle,
    make_node,
    make_pod,
    pre_filter,
    rejections,
)

AFFINITY = ("UnschedulableAndUnresolvable", "node(s) didn't match pod affinity rules")
ANTI_AFFINITY = ("Unschedulable", "node(s) didn't match pod anti-affinity rules")
EXISTING = ("Unschedulable", "node(s) didn't satisfy existing pods anti-affinity rules")


def term(selector, key=ZONE, **more):
    """`selector` is a matchLabels map or a list of expressions."""
    how = "matchExpressions" if isinstance(selector, list) else "matchLabels"
    return {"labelSelector": {how: selector}, "topologyKey": key, **more}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def near(*terms, labels=None, name="p", **spec):
    return make_pod(name, labels, affinity={"podAffinity": {REQUIRED: list(terms)}}, **spec)


def away(*terms, labels=None, name="p", **spec):
    return make_pod(name, labels, affinity={"podAntiAffinity": {REQUIRED: list(terms)}}, **spec)


def on(node, labels=None, name="other", **spec):
    return make_pod(name, labels, nodeName=node, **spec)


def namespace(name, **labels):
    return convert({"metadata": {"name": name, "labels": labels}}, Namespace)


NAMESPACES = [
    namespace("default", team="team0"),
    namespace("subteam1.team1", team="team1"),
    namespace("subteam2.team1", team="team1"),
    namespace("subteam1.team2", team="team2"),
]


def plugin(objects=NAMESPACES, gates=ON_BY_DEFAULT, **args):
    return InterPodAffinity(InterPodAffinityArgs(**args), make_handle(objects, gates))


A0 = make_node("a0", {ZONE: "a", HOST: "a0"})
A1 = make_node("a1", {ZONE: "a", HOST: "a1"})
B0 = make_node("b0", {ZONE: "b", HOST: "b0"})
BARE = make_node("bare")
NODES = [A0, A1, B0, BARE]

WEB = {"app": "web"}
DB = {"app": "db"}
TEAM1 = {"matchLabels": {"team": "team1"}}
NOT_TEAM1 = {"matchExpressions": [expression("team", "NotIn", "team1")]}


def all_but(verdict, *names):
    return {node.name: verdict for node in NODES if node.name not in names}


@pytest.mark.parametrize(
    ("pod", "pods", "want"),
    [
        pytest.param(make_pod(), [], "Skip", id="nobody wants anything"),
        pytest.param(
            make_pod(labels=WEB),
            [on("a0", affinity={"podAntiAffinity": {REQUIRED: [term(DB)]}})],
            "Skip",
            id="others avoid others",
        ),
        pytest.param(
            make_pod(labels=WEB),
            [on("bare", affinity={"podAntiAffinity": {REQUIRED: [term(WEB)]}})],
            "Skip",
            id="a pod on a node without the label cannot keep others away",
        ),
        pytest.param(near(term(DB)), [on("a0", DB)], all_but(AFFINITY, "a0", "a1"), id="near"),
        pytest.param(
            near(term(DB, HOST)), [on("a0", DB)], all_but(AFFINITY, "a0"), id="near, on the node"
        ),
        pytest.param(near(term(DB)), [], all_but(AFFINITY), id="nobody to be near to"),
        pytest.param(
            near(term(DB)), [on("bare", DB)], all_but(AFFINITY), id="the wanted pod is in no domain"
        ),
        pytest.param(
            near(term(DB)),
            [on("a0", DB, namespace="subteam1.team1")],
            all_but(AFFINITY),
            id="the wanted pod is in another namespace",
        ),
        pytest.param(
            near(term(DB, namespaces=["subteam1.team1"])),
            [on("a0", DB, namespace="subteam1.team1"), on("b0", DB, "here")],
            all_but(AFFINITY, "a0", "a1"),
            id="a list of namespaces leaves out the own one",
        ),
        pytest.param(
            near(term(DB)),
            [on("a0", DB, deleted=True)],
            all_but(AFFINITY, "a0", "a1"),
            id="a pod that is being deleted is still there",
        ),
        pytest.param(
            near(term([expression("app", "NotIn", "web")])),
            [on("a0", {"tier": "x"})],
            all_but(AFFINITY, "a0", "a1"),
            id="NotIn wants pods without the key too",
        ),
        pytest.param(
            near({"topologyKey": ZONE}),
            [on("a0", DB)],
            all_but(AFFINITY),
            id="no selector wants nobody",
        ),
        pytest.param(
            near(term(DB), term(WEB, HOST)),
            [on("a0", DB), on("b0", WEB, "web")],
            all_but(AFFINITY),
            id="one pod must be all that is wanted",
        ),
        pytest.param(
            near(term(DB), term({"x": "1"}, HOST)),
            [on("a0", {**DB, "x": "1"})],
            all_but(AFFINITY, "a0"),
            id="all terms, met by one pod",
        ),
        pytest.param(
            near(term(WEB), labels=WEB), [], {"bare": AFFINITY}, id="the first of its kind"
        ),
        pytest.param(
            near(term(WEB), labels=WEB),
            [on("b0", WEB)],
            all_but(AFFINITY, "b0"),
            id="the second of its kind",
        ),
        pytest.param(
            near(term(WEB), labels=WEB),
            [on("bare", WEB)],
            {"bare": AFFINITY},
            id="one of its kind in no domain does not count",
        ),
        pytest.param(
            near(term(WEB), term({"x": "1"}), labels={**WEB, "x": "1"}),
            [on("a0", WEB)],
            {"bare": AFFINITY},
            id="the first of its kind, although another is half like it",
        ),
        pytest.param(
            near(term(WEB), term({"x": "1"}), labels=WEB),
            [],
            all_but(AFFINITY),
            id="not all of its own kind",
        ),
        pytest.param(
            away(term(DB)), [on("a0", DB)], {"a0": ANTI_AFFINITY, "a1": ANTI_AFFINITY}, id="away"
        ),
        pytest.param(
            away(term(DB, HOST)), [on("a0", DB)], {"a0": ANTI_AFFINITY}, id="away from the node"
        ),
        pytest.param(away(term(DB)), [on("bare", DB)], {}, id="away, but from no domain"),
        pytest.param(
            away(term(DB, HOST), term(WEB, HOST)),
            [on("a0", DB), on("b0", WEB, "web")],
            {"a0": ANTI_AFFINITY, "b0": ANTI_AFFINITY},
            id="away from either",
        ),
        pytest.param(
            away(term(WEB)),
            [on("a0", WEB, namespace="subteam1.team2")],
            {},
            id="away, from the own namespace only",
        ),
        pytest.param(
            away(term(WEB, namespaceSelector={})),
            [on("a0", WEB, namespace="unheard-of")],
            {"a0": ANTI_AFFINITY, "a1": ANTI_AFFINITY},
            id="an empty namespace selector is every namespace",
        ),
        pytest.param(
            near(term(DB, namespaceSelector=TEAM1)),
            [on("a0", DB, namespace="subteam2.team1")],
            all_but(AFFINITY, "a0", "a1"),
            id="namespaces by label",
        ),
        pytest.param(
            near(term(DB, namespaceSelector=TEAM1)),
            [on("a0", DB, namespace="subteam1.team2")],
            all_but(AFFINITY),
            id="namespaces by label, not this one",
        ),
        pytest.param(
            near(term(DB, namespaceSelector=TEAM1, namespaces=["subteam1.team2"])),
            [on("a0", DB, namespace="subteam1.team2")],
            all_but(AFFINITY, "a0", "a1"),
            id="namespaces by label or by name",
        ),
        pytest.param(
            away(term(DB, namespaceSelector=NOT_TEAM1)),
            [on("a0", DB, namespace="subteam1.team1"), on("b0", DB, "b")],
            {"b0": ANTI_AFFINITY},
            id="namespaces by what they are not",
        ),
        pytest.param(
            make_pod(labels=WEB),
            [away(term(WEB), name="other", nodeName="a0")],
            {"a0": EXISTING, "a1": EXISTING},
            id="a pod that is there avoids this one",
        ),
        pytest.param(
            make_pod(labels=WEB),
            [away(term(WEB, HOST), term(DB), name="other", nodeName="a0")],
            {"a0": EXISTING},
            id="each term of a pod that is there counts by itself",
        ),
        pytest.param(
            make_pod(labels=WEB, namespace="subteam1.team1"),
            [away(term(WEB, namespaceSelector=TEAM1), name="other", nodeName="a0")],
            {"a0": EXISTING, "a1": EXISTING},
            id="a pod that is there avoids namespaces by label",
        ),
        pytest.param(
            make_pod(labels=WEB, namespace="unheard-of"),
            [
                away(term(WEB, namespaceSelector=TEAM1), name="x", nodeName="a0"),
                away(term(WEB, namespaceSelector=NOT_TEAM1), name="y", nodeName="b0"),
            ],
            {"b0": EXISTING},
            id="a namespace that is not known has no labels",
        ),
        pytest.param(
            away(term(WEB, HOST), labels=WEB),
            [away(term(WEB), labels=WEB, name="other", nodeName="a0")],
            {"a0": ANTI_AFFINITY, "a1": EXISTING},
            id="what the pod itself minds comes first",
        ),
        pytest.param(
            make_pod(
                labels=WEB,
                affinity={
                    "podAffinity": {REQUIRED: [term(DB, HOST)]},
                    "podAntiAffinity": {REQUIRED: [term({"x": "1"}, HOST)]},
                },
            ),
            [on("a0", {**DB, "x": "1"}), on("b0", DB, "b"), on("a1", {"x": "1"}, "c")],
            {"a0": ANTI_AFFINITY, "a1": AFFINITY, "bare": AFFINITY},
            id="affinity comes before anti-affinity",
        ),
    ],
)
def test_filter(pod, pods, want):
    assert rejections(plugin(), pod, make_cluster(NODES, pods)) == want


def test_namespaces_by_label_follow_every_change():
    objects = {}
    handle = make_handle()
    handle.listers = type("Listers", (), {"lister": lambda self, kind: FixedLister(objects)})()
    asked = InterPodAffinity(InterPodAffinityArgs(), handle)
    cluster = make_cluster([A0], [on("a0", DB, namespace="ns")])
    seen = []
    for labels in ({"team": "team2"}, {"team": "team1"}, {}):
        objects["ns"] = namespace("ns", **labels)
        seen.append(rejections(asked, away(term(DB, namespaceSelector=TEAM1)), cluster))
    assert seen == [{}, {"a0": ANTI_AFFINITY}, {}]


def test_a_term_that_cannot_be_parsed_ends_the_attempt_for_good():
    broken = term([expression("app", "Near")])
    cluster = make_cluster(NODES)
    assert rejections(plugin(), near(broken), cluster) == (
        "UnschedulableAndUnresolvable",
        'parsing pod: requiredAffinityTerms: "Near" is not a valid label selector operator',
    )


def test_a_pod_waiting_for_a_resize_is_left_alone_behind_its_gate():
    deferred = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    pod = near(term(DB), status={"conditions": [deferred]})
    cluster = make_cluster([A0])
    gates = ("InPlacePodVerticalScalingSchedulerPreemption",)
    assert rejections(plugin(gates=gates), pod, cluster) == "Skip"
    assert rejections(plugin(), pod, cluster) == {"a0": AFFINITY}


NO_STATE = ("Error", 'error reading "PreFilterInterPodAffinity" from cycleState: not found')


def test_filter_without_pre_filter_is_an_error():
    assert rejections(plugin(), make_pod(), make_cluster([A0]), CycleState()) == {"a0": NO_STATE}


def test_following_a_pod_without_pre_filter_is_an_error():
    status = plugin().remove_pod(CycleState(), make_pod(), on("a0"), 0, make_cluster([A0]))
    assert (status.code.text, status.message) == NO_STATE


class Following:
    """An attempt in which pods are added and removed."""

    def __init__(self, pod, *pods):
        self.plugin, self.pod, self.cluster = plugin(), pod, make_cluster(NODES, pods)
        self.cycle = pre_filter(self.plugin, pod, self.cluster)

    def add(self, pod, node):
        row = self.cluster.row_of(node)
        assert self.plugin.add_pod(self.cycle, self.pod, pod, row, self.cluster) is None

    def remove(self, pod, node):
        row = self.cluster.row_of(node)
        assert self.plugin.remove_pod(self.cycle, self.pod, pod, row, self.cluster) is None

    @property
    def rejected(self):
        return rejections(self.plugin, self.pod, self.cluster, self.cycle)


class TestWhatIf:
    def test_a_wanted_pod_comes(self):
        attempt = Following(near(term(DB)))
        attempt.add(on("b0", DB), "b0")
        assert attempt.rejected == all_but(AFFINITY, "b0")

    def test_a_wanted_pod_comes_to_no_domain(self):
        attempt = Following(near(term(WEB), labels=WEB))
        attempt.add(on("bare", WEB), "bare")
        assert attempt.rejected == {"bare": AFFINITY}

    def test_the_last_of_its_kind_goes(self):
        first = on("a0", WEB)
        attempt = Following(near(term(WEB), term(WEB, HOST), labels=WEB), first)
        assert attempt.rejected == all_but(AFFINITY, "a0")
        attempt.remove(first, "a0")
        assert attempt.rejected == {"bare": AFFINITY}

    def test_an_unwanted_pod_goes(self):
        unwanted = on("a0", DB)
        attempt = Following(away(term(DB)), unwanted)
        attempt.remove(unwanted, "a0")
        assert attempt.rejected == {}

    def test_a_pod_that_avoids_this_one_comes(self):
        attempt = Following(near(term(WEB), labels=WEB))
        attempt.add(away(term(WEB, HOST), name="other"), "b0")
        assert attempt.rejected == {"bare": AFFINITY, "b0": EXISTING}

    def test_a_pod_that_avoids_namespaces_by_label_comes(self):
        attempt = Following(away(term(DB), labels=WEB, namespace="subteam1.team1"))
        attempt.add(away(term(WEB, HOST, namespaceSelector=TEAM1), name="x"), "b0")
        attempt.add(away(term(WEB, HOST, namespaceSelector=NOT_TEAM1), name="y"), "a0")
        assert attempt.rejected == {"b0": EXISTING}

    def test_a_pod_that_avoids_this_one_goes(self):
        avoiding = away(term(WEB), name="other", nodeName="a0")
        attempt = Following(make_pod(labels=WEB), avoiding)
        attempt.remove(avoiding, "a0")
        assert attempt.rejected == {}

    def test_a_clone_goes_its_own_way(self):
        attempt = Following(away(term(DB)))
        original, attempt.cycle = attempt.cycle, attempt.cycle.clone()
        attempt.add(on("a0", DB), "a0")
        assert attempt.rejected == {"a0": ANTI_AFFINITY, "a1": ANTI_AFFINITY}
        attempt.cycle = original
        assert attempt.rejected == {}


class TestHostnameIsTheNode:
    """With InterPodAffinityHostnameFastPath; `twin` and `other` carry the same hostname."""

    NODES = (
        make_node("twin", {ZONE: "a", HOST: "h"}),
        make_node("other", {ZONE: "a", HOST: "h"}),
        make_node("bare", {ZONE: "b"}),
    )
    GATE = frozenset({"InterPodAffinityHostnameFastPath"})

    def rejected(self, pod, *placed, gates=GATE):
        return rejections(plugin(gates=gates), pod, make_cluster(self.NODES, placed))

    def test_anti_affinity_spares_a_node_that_only_shares_the_name(self):
        pod, placed = away(term(DB, HOST)), on("twin", DB)
        assert self.rejected(pod, placed) == {"twin": ANTI_AFFINITY}
        assert self.rejected(pod, placed, gates=()) == {
            "twin": ANTI_AFFINITY,
            "other": ANTI_AFFINITY,
        }

    def test_anti_affinity_of_others_does_so_too(self):
        pod, placed = make_pod(labels=WEB), away(term(WEB, HOST), name="x", nodeName="twin")
        assert self.rejected(pod, placed) == {"twin": EXISTING}
        assert self.rejected(pod, placed, gates=()) == {"twin": EXISTING, "other": EXISTING}

    def test_affinity_is_met_on_the_very_node(self):
        pod, placed = near(term(DB, HOST)), on("twin", DB)
        assert self.rejected(pod, placed) == {"other": AFFINITY, "bare": AFFINITY}
        assert self.rejected(pod, placed, gates=()) == {"bare": AFFINITY}

    def test_affinity_over_other_keys_as_well_goes_by_the_label(self):
        pod, placed = near(term(DB, HOST), term(DB, ZONE)), on("twin", DB)
        assert self.rejected(pod, placed) == {"bare": AFFINITY}

    def test_a_pod_on_a_node_without_the_label_is_one_of_its_kind(self):
        pod, placed = near(term(WEB, HOST), labels=WEB), on("bare", WEB)
        everywhere = {"twin": AFFINITY, "other": AFFINITY, "bare": AFFINITY}
        assert self.rejected(pod, placed) == everywhere
        assert self.rejected(pod, placed, gates=()) == {"bare": AFFINITY}

    def test_terms_on_a_node_without_the_label_reject_nothing(self):
        assert self.rejected(away(term(DB, HOST)), on("bare", DB)) == {}
        pod, placed = make_pod(labels=WEB), away(term(WEB, HOST), name="x", nodeName="bare")
        assert self.rejected(pod, placed) == {}

    def test_the_plugin_has_a_say_if_any_pod_carries_such_a_term(self):
        pod = make_pod(labels=WEB)
        by_host = away(term(DB, HOST), name="x", nodeName="twin")
        by_zone = away(term(DB, ZONE), name="x", nodeName="twin")
        assert self.rejected(pod, by_host) == {}
        assert self.rejected(pod, by_zone) == "Skip"
        assert self.rejected(pod, by_host, gates=()) == "Skip"
