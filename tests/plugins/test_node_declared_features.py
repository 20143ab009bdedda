"""A pod that needs a kubelet feature goes where the kubelet declares it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cluster_event import NODE, TARGET_POD, Action, ClusterEvent
from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_declared_features import NOT_PREPARED, NodeDeclaredFeatures
from kscheduler.state.nodes import KNOWN_FEATURES
from tests.plugins.machines import UNRESOLVABLE, container, hint, make_node, rejected
from tests.plugins.topologies import make_cluster, make_pod

REASON = (UNRESOLVABLE, "node(s) didn't match Pod's required features")
RESTART, NAMESPACES, MOUNTS = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)
RESTARTING = container(restartPolicyRules=[{"action": "RestartAllContainers"}])
MOUNTING = container(volumeMounts=[{"bindMountOptions": ["noexec"]}])


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        pytest.param({"containers": [container()]}, [], id="nothing"),
        pytest.param({"containers": [RESTARTING]}, [RESTART], id="restart of all containers"),
        pytest.param({"initContainers": [RESTARTING]}, [RESTART], id="by an init container"),
        pytest.param({"ephemeralContainers": [RESTARTING]}, [], id="not by an ephemeral one"),
        pytest.param(
            {"containers": [container(restartPolicyRules=[{"action": "Restart"}])]},
            [],
            id="another action",
        ),
        pytest.param({"containers": [MOUNTING]}, [MOUNTS], id="mount options"),
        pytest.param({"ephemeralContainers": [MOUNTING]}, [MOUNTS], id="of an ephemeral one too"),
        pytest.param(
            {"containers": [container(volumeMounts=[{"bindMountOptions": []}])]}, [], id="no option"
        ),
        pytest.param({"hostNetwork": True, "hostUsers": False}, [NAMESPACES], id="namespaces"),
        pytest.param({"hostNetwork": True}, [], id="hostUsers is not said"),
        pytest.param({"hostNetwork": True, "hostUsers": True}, [], id="hostUsers is true"),
        pytest.param({"hostUsers": False}, [], id="own network"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False, "containers": [RESTARTING, MOUNTING]},
            [RESTART, NAMESPACES, MOUNTS],
            id="all of them",
        ),
    ],
)
def test_features_are_inferred_from_the_spec(spec, needs):
    nodes = make_cluster([make_node("none"), make_node("all", features=KNOWN_FEATURES)])
    pod = make_pod(**spec)
    want = {"none": REASON} if needs else "Skip"
    assert rejected(NodeDeclaredFeatures(), pod, nodes) == want
    bits = "".join("1" if feature in needs else "0" for feature in KNOWN_FEATURES)
    assert NodeDeclaredFeatures().sign(pod) == {"v1.Pod.Spec.RequiredFeatures()": bits}


def test_filter_needs_what_pre_filter_prepares():
    nodes = make_cluster([make_node("n1", features=KNOWN_FEATURES)])
    got = rejected(NodeDeclaredFeatures(), make_pod(), nodes, CycleState())
    assert got == {"n1": ("Error", NOT_PREPARED)}


@settings(deadline=None)
@given(declared=st.lists(st.sets(st.sampled_from((*KNOWN_FEATURES, "Zebra"))), min_size=1))
def test_a_node_must_declare_all_of_them(declared):
    nodes = make_cluster(
        [make_node(f"n{i}", features=sorted(features)) for i, features in enumerate(declared)]
    )
    pod = make_pod(containers=[RESTARTING, MOUNTING])
    want = {f"n{i}": REASON for i, has in enumerate(declared) if not {RESTART, MOUNTS} <= has}
    assert rejected(NodeDeclaredFeatures(), pod, nodes) == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, make_node(), "Queue", id="any new node"),
        pytest.param(make_node(), make_node(features=["A"]), "Queue", id="a change of any kind"),
        pytest.param(make_node(features=["A"]), make_node(features=["A"]), "QueueSkip", id="none"),
    ],
)
def test_hint_for_nodes(old, new, want):
    event = ClusterEvent(NODE, Action.ADD if old is None else Action.UPDATE_NODE_DECLARED_FEATURE)
    assert hint(NodeDeclaredFeatures(), event, make_pod(), old, new) == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param([RESTARTING], [container()], "Queue", id="needs less"),
        pytest.param([container()], [RESTARTING], "Queue", id="needs more"),
        pytest.param([RESTARTING], [RESTARTING, container()], "QueueSkip", id="needs the same"),
    ],
)
def test_hint_for_the_pod_itself(old, new, want):
    event = ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL)
    before, after = make_pod(containers=old), make_pod(containers=new)
    assert hint(NodeDeclaredFeatures(), event, after, before, after) == want
