"""Affinity over columns equals affinity by its definition, one node at a time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_affinity.args import NodeAffinityArgs
from kscheduler.plugins.node_affinity.plugin import NodeAffinity
from tests.plugins.machines import UNRESOLVABLE, make_node, prepared, rejected, scores
from tests.plugins.topologies import PREFERRED, REQUIRED, make_cluster, make_handle, make_pod

KEYS = ("a", "b", "n")
VALUES = ("", "x", "y", "1", "05", "12")
NAMES = tuple(f"node-{i}" for i in range(4))
REASON_POD = (UNRESOLVABLE, "node(s) didn't match Pod's node affinity/selector")
REASON_ENFORCED = (UNRESOLVABLE, "node(s) didn't match scheduler-enforced node affinity")


@st.composite
def expressions(draw):
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    values = []
    if operator in ("In", "NotIn"):
        values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    elif operator in ("Gt", "Lt"):
        values = [draw(st.sampled_from(["1", "05", "12", "x"]))]
    return {"key": draw(st.sampled_from(KEYS)), "operator": operator, "values": values}


fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(NAMES), min_size=1, max_size=1),
    }
)
terms = st.fixed_dictionaries(
    {
        "matchExpressions": st.lists(expressions(), max_size=2),
        "matchFields": st.lists(fields, max_size=1),
    }
)
required = st.none() | st.lists(terms, max_size=3)
preferred = st.lists(st.tuples(st.integers(1, 100), terms), max_size=3)
label_sets = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


def number(text):
    return int(text) if text and text.isdigit() else None


def meets(labels, key, operator, values):
    have = labels.get(key)
    match operator:
        case "In":
            return have in values
        case "NotIn":
            return have is None or have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
    if have is None or number(have) is None:
        return False
    return number(have) > int(values[0]) if operator == "Gt" else number(have) < int(values[0])


def broken(term):
    """Only a bound that is no number, with these values."""
    return any(
        one["operator"] in ("Gt", "Lt") and number(one["values"][0]) is None
        for one in term["matchExpressions"]
    )


def matches(term, name, labels):
    if not term["matchExpressions"] and not term["matchFields"]:
        return False
    if broken(term):
        return False
    by_name = {"metadata.name": name}
    return all(meets(labels, **one) for one in term["matchExpressions"]) and all(
        meets(by_name, **one) for one in term["matchFields"]
    )


def as_affinity(terms, wishes):
    affinity = {
        PREFERRED: [{"weight": weight, "preference": preference} for weight, preference in wishes]
    }
    if terms is not None:
        affinity[REQUIRED] = {"nodeSelectorTerms": terms}
    return affinity


def usable(terms):
    return [term for term in terms or () if not broken(term)]


@settings(deadline=None)
@given(
    labels=st.lists(label_sets, min_size=4, max_size=4),
    selector=st.none() | label_sets,
    terms=required,
    wishes=preferred.map(lambda some: [one for one in some if not broken(one[1])]),
    added_terms=required,
    added_wishes=preferred.map(lambda some: [one for one in some if not broken(one[1])]),
)
def test_equals_its_definition(labels, selector, terms, wishes, added_terms, added_wishes):
    nodes = dict(zip(NAMES, labels, strict=True))
    cluster = make_cluster([make_node(name, labels=own) for name, own in nodes.items()])
    added_terms = None if added_terms is None else usable(added_terms)
    added = {"addedAffinity": as_affinity(added_terms, added_wishes)}
    plugin = NodeAffinity(NodeAffinityArgs.model_validate(added), make_handle())
    pod = make_pod(affinity={"nodeAffinity": as_affinity(terms, wishes)}, nodeSelector=selector)

    def verdict(name):
        own = nodes[name]
        if added_terms is not None and not any(matches(t, name, own) for t in added_terms):
            return REASON_ENFORCED
        selected = all(own.get(key) == value for key, value in (selector or {}).items())
        if selected and (terms is None or any(matches(t, name, own) for t in terms)):
            return None
        return REASON_POD

    verdicts = {name: verdict(name) for name in nodes}
    want = {name: reason for name, reason in verdicts.items() if reason is not None}
    assert rejected(plugin, pod, cluster, CycleState()) == want
    named = prepared(plugin, pod, cluster)
    if isinstance(named, list):
        assert all(name in named for name, reason in verdicts.items() if reason is None)
    elif named == "Skip":
        assert not want
    elif isinstance(named, tuple):
        assert want.keys() == nodes.keys()

    raw = [
        sum(
            weight
            for weight, preference in (*added_wishes, *wishes)
            if matches(preference, name, own)
        )
        for name, own in nodes.items()
    ]
    best = max(raw)
    got = scores(plugin, pod, cluster)
    if wishes or added_wishes:
        assert got == (raw, [one * 100 // best if best else 0 for one in raw])
    else:
        assert got == "Skip"
