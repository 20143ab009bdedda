"""The search with its pruning against the plain one, and verdicts that are kept against new ones.

Clusters are small and random: every kind of limit on devices, slices that come, change and go, and
claims that take devices and free them.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.dra.candidates import Candidates, NodeDevices
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.kinds import Kinds
from kscheduler.dra.pools import NodePools
from kscheduler.dra.search import Search
from kscheduler.dra.selectors import Expressions
from tests.dra.inventory import Inventory, first_available, make_claim, make_class, make_slice
from tests.kit.devices import DRIVER, device, request
from tests.kit.objects import make_node

NODES = ("n1", "n2", "n3")
COUNTERS = [{"name": "set", "counters": {"slots": {"value": "3"}, "memory": {"value": "8Gi"}}}]
MODELS = ("a", "b")

# The labels of nodes change in some tests.
LABELLED = [{"matchExpressions": [{"key": "at", "operator": "In", "values": ["2", "5"]}]}]
ANYWHERE = ({"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": LABELLED}})

classes = (
    make_class("any"),
    make_class("a", f'device.attributes["{DRIVER}"].model == "a"'),
    make_class("shared", "device.allowMultipleAllocations"),
)


@st.composite
def devices(draw, number, *, counted):
    """One device; `counted`: it may draw on the counters of its pool."""
    fields = {"attributes": {"model": {"string": draw(st.sampled_from(MODELS))}}}
    if draw(st.booleans()):
        fields["attributes"]["root"] = {"int": draw(st.integers(0, 2))}
    if draw(st.integers(0, 3)) == 0:
        fields["allowMultipleAllocations"] = True
        fields["capacity"] = {"memory": {"value": "4Gi", "requestPolicy": {"default": "1Gi"}}}
    if draw(st.integers(0, 4)) == 0:
        fields["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
    if counted and draw(st.booleans()):
        slots = str(draw(st.integers(1, 2)))
        fields["consumesCounters"] = [
            {"counterSet": "set", "counters": {"slots": {"value": slots}}},
        ]
    return device(f"gpu-{number}", **fields)


@st.composite
def slices(draw):
    """The slices of one pool: of a node, or of all nodes; with counters, or without."""
    node = draw(st.sampled_from((*NODES, None)))
    counted = draw(st.booleans())
    name = f"{node or 'net'}-{draw(st.integers(0, 1))}"
    of_pool = draw(st.lists(st.integers(0, 9), max_size=5, unique=True))
    where = {"node": node} if node else draw(st.sampled_from(ANYWHERE))
    # Now and then one of the slices is missing.
    about = {"pool": name, "slices": 1 + counted + (draw(st.integers(0, 9)) == 0), **where}
    some = [draw(devices(number, counted=counted)) for number in of_pool]
    made = [make_slice(name, devices=some, **about)]
    if counted:
        made.append(make_slice(f"{name}-counters", devices=[], sharedCounters=COUNTERS, **about))
    return made


@st.composite
def asked(draw, name, *, sub=False):
    fields = {"of": draw(st.sampled_from(("any", "any", "a", "shared")))}
    if draw(st.integers(0, 5)) == 0:
        fields["allocationMode"] = "All"
    else:
        fields["count"] = draw(st.integers(1, 3))
    if draw(st.integers(0, 3)) == 0:
        fields["tolerations"] = [{"key": "bad", "operator": "Exists"}]
    if draw(st.integers(0, 3)) == 0:
        fields["capacity"] = {"requests": {"memory": "2Gi"}}
    if not sub and draw(st.integers(0, 5)) == 0:
        fields["adminAccess"] = True
    return request(name, **fields)


@st.composite
def claims(draw, name):
    requests = []
    for number in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 2)) == 0:
            some = [draw(asked(f"s{index}", sub=True)) for index in range(draw(st.integers(1, 3)))]
            requests.append(first_available(f"r{number}", *some))
        else:
            requests.append(draw(asked(f"r{number}")))
    constraints = []
    for kind in draw(
        st.lists(st.sampled_from(("matchAttribute", "distinctAttribute")), max_size=2)
    ):
        attribute = draw(st.sampled_from(("model", "root")))
        constraint = {kind: f"{DRIVER}/{attribute}"}
        if draw(st.booleans()):
            constraint["requests"] = [draw(st.sampled_from([one["name"] for one in requests]))]
        constraints.append(constraint)
    return make_claim(name, *requests, constraints=constraints)


@st.composite
def pods(draw, number):
    return [draw(claims(f"p{number}-{index}")) for index in range(draw(st.integers(1, 2)))]


def cluster_of(pools):
    nodes = [make_node(name) for name in NODES]
    return Inventory(
        *classes, *{one.key: one for pool in pools for one in pool}.values(), nodes=nodes
    )


def outcome(cluster, wanted, node, *, prune):
    """The devices found, by a search of its own; or the text of the error."""
    shape = cluster.allocator.shape_of(wanted)
    kinds = Kinds(shape, Expressions(), cluster.features)
    pools = NodePools(cluster.allocator.slices, cluster.features).of(node)
    inventory = NodeDevices(pools, cluster.allocated.uses, skips_operations=False)
    try:
        candidates = Candidates(shape, wanted, inventory, lambda one: kinds.find(one.type))
        found = Search(candidates, cluster.features, lambda: False, prune=prune).find()
    except AllocationError as error:
        return str(error)
    if found is None:
        return None
    picks = [[(p.alternative.full_name, p.candidate.name) for p in some] for some in found.picks]
    return picks, found.chosen


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_search_with_pruning_finds_what_a_search_without_finds(data):
    cluster = cluster_of(data.draw(st.lists(slices(), min_size=1, max_size=4)))
    for number in range(4):
        wanted = data.draw(pods(number))
        for name in NODES:
            node = cluster.node(name)
            found = outcome(cluster, wanted, node, prune=True)
            assert found == outcome(cluster, wanted, node, prune=False)
            if isinstance(found, tuple):
                cluster.take(*wanted, on=name)
                break


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_verdicts_that_are_kept_are_those_that_are_worked_out_anew(data):
    cluster = cluster_of(data.draw(st.lists(slices(), min_size=1, max_size=3)))
    shapes = [data.draw(pods(number)) for number in range(2)]
    taken = []
    for number in range(8):
        match data.draw(st.sampled_from(("take", "take", "free", "slice", "no slice", "label"))):
            case "take":
                wanted = data.draw(pods(number + 10))
                node = data.draw(st.sampled_from(NODES))
                if isinstance(outcome(cluster, wanted, cluster.node(node), prune=True), tuple):
                    cluster.take(*wanted, on=node)
                    taken += wanted
            case "free" if taken:
                cluster.allocated.remove(taken.pop(0).uid)
            case "slice":
                cluster.put(*data.draw(slices()))
            case "no slice":
                for one in list(cluster.informers.lister(type(make_slice())).items())[:1]:
                    cluster.informers.remove(one)
            case "label":
                node = cluster.node(data.draw(st.sampled_from(NODES)))
                changed = make_node(node.name, labels={"at": str(number)})
                cluster.cache.update_node(changed)
        for wanted in shapes:
            anew = cluster.verdicts(*wanted, allocator=cluster.new_allocator())
            assert cluster.verdicts(*wanted) == anew
