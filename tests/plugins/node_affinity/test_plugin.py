"""Pods choose nodes by label or name; the profile may add an affinity of its own."""

import pytest

from kscheduler.api.labels import SelectorError
from kscheduler.errors import ConfigError
from kscheduler.framework.cluster_event import NODE, Action, ClusterEvent
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_affinity.args import NodeAffinityArgs
from kscheduler.plugins.node_affinity.plugin import NodeAffinity
from tests.plugins.machines import (
    UNRESOLVABLE,
    hint,
    make_node,
    prepared,
    raw_scores,
    rejected,
    scores,
)
from tests.plugins.topologies import PREFERRED, REQUIRED, make_cluster, make_handle, make_pod

MISSED = (UNRESOLVABLE, "node(s) didn't match Pod's node affinity/selector")
NOT_ALLOWED = (UNRESOLVABLE, "node(s) didn't match scheduler-enforced node affinity")
CONFLICT = (UNRESOLVABLE, "pod affinity terms conflict")


def make_plugin(**added):
    args = {"addedAffinity": added} if added else {}
    return NodeAffinity(NodeAffinityArgs.model_validate(args), make_handle())


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions, names=()):
    """`names`: matchFields for the node's name, as (operator, value…)."""
    return {
        "matchExpressions": [expression(*one) for one in expressions],
        "matchFields": [expression("metadata.name", *one) for one in names],
    }


def required(*terms):
    return {REQUIRED: {"nodeSelectorTerms": list(terms)}}


def preferred(*weighted):
    return {PREFERRED: [{"weight": weight, "preference": one} for weight, one in weighted]}


def wanting(affinity=None, **spec):
    if affinity is not None:
        spec["affinity"] = {"nodeAffinity": affinity}
    return make_pod(**spec)


def judged(pod, *nodes, plugin=None):
    return rejected(plugin or make_plugin(), pod, make_cluster(nodes), CycleState())


FOO = make_node("n1", labels={"foo": "bar", "number": "0206"})


@pytest.mark.parametrize(
    ("pod", "matches"),
    [
        pytest.param(wanting(nodeSelector={"foo": "bar"}), True, id="selector"),
        pytest.param(wanting(nodeSelector={"foo": "bar", "x": "y"}), False, id="all its labels"),
        pytest.param(wanting(nodeSelector={}), True, id="an empty selector"),
        pytest.param(wanting(required(term(("foo", "In", "x", "bar")))), True, id="In"),
        pytest.param(wanting(required(term(("absent", "In", "x")))), False, id="In, absent"),
        pytest.param(wanting(required(term(("foo", "NotIn", "bar")))), False, id="NotIn"),
        pytest.param(wanting(required(term(("absent", "NotIn", "x")))), True, id="NotIn, absent"),
        pytest.param(wanting(required(term(("foo", "Exists")))), True, id="Exists"),
        pytest.param(wanting(required(term(("absent", "Exists")))), False, id="Exists, absent"),
        pytest.param(wanting(required(term(("foo", "DoesNotExist")))), False, id="DoesNotExist"),
        pytest.param(
            wanting(required(term(("absent", "DoesNotExist")))), True, id="DoesNotExist, absent"
        ),
        pytest.param(wanting(required(term(("number", "Gt", "0204")))), True, id="Gt, in decimal"),
        pytest.param(wanting(required(term(("number", "Gt", "206")))), False, id="Gt, equal"),
        pytest.param(wanting(required(term(("number", "Lt", "207")))), True, id="Lt"),
        pytest.param(wanting(required(term(("absent", "Lt", "1")))), False, id="Lt, absent"),
        pytest.param(wanting(required(term(("foo", "Gt", "1")))), False, id="Gt, no number"),
        pytest.param(
            wanting(required(term(("number", "Gt", "-1")))), False, id="Gt with a bound below zero"
        ),
        pytest.param(
            wanting(required(term(("foo", "Exists"), ("absent", "Exists")))),
            False,
            id="expressions are joined by and",
        ),
        pytest.param(
            wanting(required(term(("absent", "Exists")), term(("foo", "Exists")))),
            True,
            id="terms are joined by or",
        ),
        pytest.param(wanting(required(term())), False, id="an empty term matches nothing"),
        pytest.param(wanting(required()), False, id="no term matches nothing"),
        pytest.param(
            wanting(required(term(("foo", "NotIn", "invalid value: ___@#$%^")))),
            False,
            id="a term that cannot be parsed matches nothing",
        ),
        pytest.param(
            wanting(required(term(("foo", "Odd", "x")), term(("foo", "Exists")))),
            True,
            id="another term may still match",
        ),
        pytest.param(
            wanting(required(term(("foo", "Exists"))), nodeSelector={"x": "y"}),
            False,
            id="selector and affinity must both match",
        ),
        pytest.param(wanting(required(term(names=[("In", "n1")]))), True, id="by name"),
        pytest.param(wanting(required(term(names=[("In", "n2")]))), False, id="another name"),
        pytest.param(wanting(required(term(names=[("NotIn", "n2")]))), True, id="by not being it"),
        pytest.param(
            wanting(required(term(names=[("In", "n1", "n2")]))),
            False,
            id="a field with two values cannot be parsed",
        ),
        pytest.param(
            wanting(required(term(("absent", "Exists"), names=[("In", "n1")]))),
            False,
            id="name and expressions must both match",
        ),
    ],
)
def test_filter(pod, matches):
    assert judged(pod, FOO) == ({} if matches else {"n1": MISSED})


def test_an_added_affinity_comes_first_and_alone():
    plugin = make_plugin(**required(term(("zone", "In", "a"))))
    here, there = make_node("here", labels={"zone": "a"}), make_node("there", labels={"zone": "b"})
    want = {"here": MISSED, "there": NOT_ALLOWED}
    assert judged(wanting(nodeSelector={"foo": "bar"}), here, there, plugin=plugin) == want
    assert judged(wanting(), here, there, plugin=plugin) == {"there": NOT_ALLOWED}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(wanting(), "Skip", id="nothing is wanted"),
        pytest.param(wanting({}), "Skip", id="an empty affinity"),
        pytest.param(wanting(preferred((1, term(("a", "Exists"))))), "Skip", id="only preferences"),
        pytest.param(wanting(nodeSelector={}), None, id="an empty selector is a selector"),
        pytest.param(wanting(required()), None, id="no terms"),
        pytest.param(
            wanting(required(term(names=[("In", "a")]), term(names=[("In", "b")]))),
            ["a", "b"],
            id="names of all terms",
        ),
        pytest.param(
            wanting(required(term(names=[("In", "a")]), term(("x", "Exists")))),
            None,
            id="one term names nobody",
        ),
        pytest.param(
            wanting(required(term(names=[("In", "a"), ("In", "b")]))), CONFLICT, id="two names"
        ),
        pytest.param(
            wanting(required(term(names=[("In", "a"), ("In", "b")]), term(names=[("In", "c")]))),
            ["c"],
            id="a conflicting term adds nobody",
        ),
        pytest.param(
            wanting(required(term(names=[("In", "a", "b"), ("In", "b", "c")]))),
            ["b"],
            id="what both name",
        ),
        pytest.param(
            wanting(required(term(("x", "Exists"), names=[("In", "a")]))),
            ["a"],
            id="a name beside expressions",
        ),
        pytest.param(
            wanting(required(term(names=[("NotIn", "a")]))), None, id="NotIn names nobody"
        ),
        pytest.param(wanting(required(term(names=[("In",)]))), CONFLICT, id="In nobody"),
    ],
)
def test_pre_filter(pod, want):
    answer = prepared(make_plugin(), pod, make_cluster([FOO]))
    assert (None if isinstance(answer, CycleState) else answer) == want


def test_an_added_affinity_is_looked_at_for_every_pod():
    added = make_plugin(**required(term(("a", "Exists"))))
    assert isinstance(prepared(added, wanting(), make_cluster([FOO])), CycleState)


BOTH = {"foo": "bar", "key": "value", "az": "az1"}
FOO_BAR, KEY_VALUE = term(("foo", "In", "bar")), term(("key", "In", "value"))
ALL_THREE = term(("foo", "In", "bar"), ("key", "In", "value"), ("az", "In", "az1"))


@pytest.mark.parametrize(
    ("plugin", "pod", "labels", "want"),
    [
        pytest.param(
            make_plugin(),
            wanting(preferred((2, FOO_BAR), (4, KEY_VALUE), (5, ALL_THREE))),
            [{"foo": "bar"}, BOTH, {"key": "value"}],
            ([2, 11, 4], [18, 100, 36]),
            id="weights of all terms that match",
        ),
        pytest.param(
            make_plugin(**preferred((3, KEY_VALUE))),
            wanting(preferred((2, FOO_BAR))),
            [{"foo": "bar"}, {"key": "value"}, BOTH],
            ([2, 3, 5], [40, 60, 100]),
            id="with those of the profile",
        ),
        pytest.param(
            make_plugin(**preferred((3, KEY_VALUE))),
            wanting(),
            [{"foo": "bar"}, {"key": "value"}],
            ([0, 3], [0, 100]),
            id="only those of the profile",
        ),
        pytest.param(
            make_plugin(),
            wanting(preferred((2, FOO_BAR))),
            [{}, {}],
            ([0, 0], [0, 0]),
            id="no match anywhere",
        ),
        pytest.param(
            make_plugin(),
            wanting(preferred((2, term()), (0, term(("b/a/d", "Exists"))), (1, FOO_BAR))),
            [{"foo": "bar"}, {}],
            ([1, 0], [100, 0]),
            id="empty terms and those without weight do not count, whatever they say",
        ),
        pytest.param(make_plugin(), wanting(), [{}], "Skip", id="no preference"),
        pytest.param(
            make_plugin(**preferred((1, term()))),
            wanting(),
            [{}],
            ([0], [0]),
            id="a profile with preferences scores, though none can match",
        ),
    ],
)
def test_score(plugin, pod, labels, want):
    nodes = make_cluster([make_node(f"n{i}", labels=one) for i, one in enumerate(labels)])
    assert scores(plugin, pod, nodes) == want


def test_a_preference_that_cannot_be_parsed_is_an_error():
    pod = wanting(preferred((1, term(("invalid key", "Exists")))))
    code, text = scores(make_plugin(), pod, make_cluster([FOO]))
    assert code == "Error"
    assert text.startswith('[0].matchExpressions[0].key: Invalid value: "invalid key": name part')


def test_scores_without_pre_score_as_well():
    pod = wanting(preferred((7, FOO_BAR)))
    assert raw_scores(make_plugin(), pod, make_cluster([FOO]), CycleState()) == [7]
    assert raw_scores(make_plugin(), wanting(), make_cluster([FOO]), CycleState()) == [0]


@pytest.mark.parametrize(
    ("added", "where"),
    [
        (required(term(("/", "Exists"))), "required"),
        (preferred((1, term(("/", "In")))), "preferred"),
    ],
)
def test_an_added_affinity_that_cannot_be_parsed_is_refused(added, where):
    with pytest.raises(ConfigError, match=f"^parsing addedAffinity.{where}DuringScheduling"):
        make_plugin(**added)


MATCHING, OTHER = make_node(labels={"foo": "bar"}), make_node(labels={"foo": "baz"})


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, MATCHING, "Queue", id="a node that matches is added"),
        pytest.param(None, OTHER, "QueueSkip", id="a node that does not match is added"),
        pytest.param(OTHER, MATCHING, "Queue", id="it matches now"),
        pytest.param(MATCHING, MATCHING, "QueueSkip", id="it matched before"),
        pytest.param(MATCHING, OTHER, "QueueSkip", id="it does not match any more"),
    ],
)
def test_hint_for_nodes(old, new, want):
    event = ClusterEvent(NODE, Action.ADD if old is None else Action.UPDATE_NODE_LABEL)
    pod = wanting(required(FOO_BAR))
    assert hint(make_plugin(), event, pod, old, new) == want
    elsewhere = make_plugin(**required(term(("foo", "DoesNotExist"))))
    assert hint(elsewhere, event, pod, old, new) == "QueueSkip"


def test_a_term_that_cannot_be_parsed_matters_where_no_other_matches():
    event = ClusterEvent(NODE, Action.ADD)
    pod = wanting(required(term(("a b", "Exists")), FOO_BAR))
    assert hint(make_plugin(), event, pod, None, MATCHING) == "Queue"
    with pytest.raises(SelectorError, match="a b"):
        hint(make_plugin(), event, pod, None, OTHER)


def test_signs_equal_affinities_equally():
    one = wanting(
        {**required(term(("a", "In", "x", "y"), ("b", "Exists"))), **preferred((1, FOO_BAR))}
    )
    other = wanting(
        {**required(term(("b", "Exists"), ("a", "In", "y", "x"))), **preferred((1, FOO_BAR))}
    )
    plugin = make_plugin()
    assert plugin.sign(one) == plugin.sign(other)
    assert plugin.sign(one) != plugin.sign(wanting(preferred((1, FOO_BAR))))
    assert plugin.sign(wanting(nodeSelector={"a": "b"})) == {
        "v1.Pod.Spec.Affinity.NodeAffinity": None,
        "v1.Pod.Spec.Affinity.NodeSelector": {"a": "b"},
    }
