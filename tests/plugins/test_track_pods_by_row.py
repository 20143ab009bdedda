"""Pods leave many rows at once, each row in a world of its own: what a plugin then says of a row is
what it says when pods have left that row alone.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kscheduler.state.pod_info import PodInfo
from tests.plugins.evictions import REQUIRED, Stage, make_node, make_pod

NAMES = [f"n{number}" for number in range(6)]
ZONES = ["a", "b", "c", ""]
HOSTNAME = "kubernetes.io/hostname"


def term(app, key):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


apps, keys = st.sampled_from(["x", "y"]), st.sampled_from(["host", "zone", HOSTNAME])
terms = st.lists(st.builds(term, apps, keys), max_size=2)
constraints = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 2),
        "topologyKey": keys,
        "whenUnsatisfiable": st.just("DoNotSchedule"),
        "labelSelector": st.builds(lambda app: {"matchLabels": {"app": app}}, apps),
    },
    optional={
        "minDomains": st.integers(1, 5),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
    },
)
zones = st.lists(st.sampled_from(ZONES), min_size=len(NAMES), max_size=len(NAMES))
bound = st.lists(
    st.fixed_dictionaries(
        {
            "node": st.sampled_from(NAMES),
            "app": apps,
            "shuns": terms,
            # Leaves, and perhaps comes back.
            "moves": st.sampled_from(["stays", "leaves", "returns"]),
        }
    ),
    max_size=14,
)
wanting = st.fixed_dictionaries(
    {
        "near": terms,
        "far": terms,
        "spread": st.lists(constraints, max_size=2),
        "app": apps,
        "selector": st.sampled_from([{}, {"half": "1"}]),
    }
)


def staged(zones, bound, wanting, gates):
    """Two nodes each share a host name, and the last has none."""
    nodes = [
        make_node(
            name,
            half=str(number % 2),
            **({"zone": zone} if zone else {}),
            **({HOSTNAME: f"h{number // 2}"} if number < len(NAMES) - 1 else {}),
        )
        for number, (name, zone) in enumerate(zip(NAMES, zones, strict=True))
    ]
    pods = [
        make_pod(
            f"v{number}",
            node=one["node"],
            labels={"app": one["app"]},
            affinity={"podAntiAffinity": {REQUIRED: one["shuns"]}},
        )
        for number, one in enumerate(bound)
    ]
    affinity = {
        "podAffinity": {REQUIRED: wanting["near"]},
        "podAntiAffinity": {REQUIRED: wanting["far"]},
    }
    pod = make_pod(
        "p",
        labels={"app": wanting["app"]},
        affinity=affinity,
        nodeSelector=wanting["selector"],
        topologySpreadConstraints=wanting["spread"],
    )
    return Stage(nodes, pods, asynchronous=gates), [PodInfo(one) for one in pods], PodInfo(pod)


def verdicts(plugin, cycle, pod, nodes):
    """By node, what is said against it."""
    said = [[] for _ in range(len(nodes))]
    for rejection in plugin.filter(cycle, pod, nodes):
        for position in np.flatnonzero(rejection.mask):
            said[position].append((rejection.code, rejection.reason))
    return said


@pytest.mark.parametrize(
    ("kind", "args", "gates"),
    [
        pytest.param(InterPodAffinity, InterPodAffinityArgs(), False, id="affinity"),
        pytest.param(InterPodAffinity, InterPodAffinityArgs(), True, id="affinity with all gates"),
        pytest.param(PodTopologySpread, PodTopologySpreadArgs(), True, id="spread"),
    ],
)
@settings(max_examples=150, deadline=None)
@given(zones=zones, bound=bound, wanting=wanting)
def test_each_row_is_in_a_world_of_its_own(kind, args, gates, zones, bound, wanting):
    stage, pods, pod = staged(zones, bound, wanting, gates)
    plugin = kind(args, stage.handle)
    cycle, nodes = CycleState(), stage.cache.snapshot()
    if plugin.pre_filter(cycle, pod, nodes) is not None:
        return
    leaving = [number for number, one in enumerate(bound) if one["moves"] != "stays"]
    returning = [number for number, one in enumerate(bound) if one["moves"] == "returns"]
    rows = np.array([nodes.row_of(one["node"]) for one in bound], np.intp)

    together = cycle.clone()
    update = plugin.track_pods_by_row(together, pods, rows, nodes)
    update(np.array(leaving, np.intp), -1)
    for number in returning:
        update(np.array([number], np.intp), 1)
    found = verdicts(plugin, together.clone(), pod, nodes.take(np.arange(len(NAMES))))

    for name in NAMES:
        row = nodes.row_of(name)
        alone = cycle.clone()
        for number in leaving:
            if rows[number] == row:
                plugin.remove_pod(alone, pod, pods[number], row, nodes)
        for number in returning:
            if rows[number] == row:
                plugin.add_pod(alone, pod, pods[number], row, nodes)
        assert [found[row]] == verdicts(plugin, alone, pod, nodes.take([row]))
