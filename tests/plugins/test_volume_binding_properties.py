"""All nodes at once against one node at a time; and answers that are kept against new ones."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume
from kscheduler.api.storage import CSIStorageCapacity
from kscheduler.plugins.volume_binding.assume_cache import PVAssumeCache
from kscheduler.plugins.volume_binding.capacity import Capacities
from kscheduler.plugins.volume_binding.find_volumes import find_matching_volumes
from kscheduler.plugins.volume_binding.plugin import VolumeBindingState
from tests.plugins.machines import UNRESOLVABLE, make_node, rejected
from tests.plugins.topologies import make_cluster
from tests.plugins.volumes import (
    SELECTED_NODE,
    Informers,
    Stage,
    in_version,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    reachable_from,
    using,
)

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

# As many as make some volumes of wide reach, see `volumes_by_size.MAX_ROWS_AS_PAIRS`.
NODES = tuple(f"n{number}" for number in range(12))
ZONES = ("", "a", "b")
GIB = 1 << 30

places = st.one_of(
    st.none(),
    st.sampled_from(ZONES[1:]).map(lambda zone: {"zone": zone}),
    st.sampled_from(NODES).map(lambda host: {"host": host}),
)
sizes = st.integers(1, 6)


@st.composite
def worlds(draw):
    zones = draw(st.lists(st.sampled_from(ZONES), min_size=12, max_size=12))
    nodes = [
        make_node(name, labels={"host": name} | ({"zone": zone} if zone else {}))
        for name, zone in zip(NODES, zones, strict=True)
    ]
    volumes = [
        _volume(draw, f"pv{number}", size)
        for number, size in enumerate(
            # Which of equal volumes is taken is nobody's business.
            draw(st.lists(st.integers(1, 12), max_size=8, unique=True))
        )
    ]
    claims = [
        _claim(draw, f"c{number}", size)
        for number, size in enumerate(draw(st.lists(sizes, min_size=1, max_size=4, unique=True)))
    ]
    provisioner = draw(st.sampled_from(["csi.example.com", "kubernetes.io/no-provisioner"]))
    allowed = draw(st.lists(st.sampled_from(ZONES[1:]).map(lambda z: {"zone": z}), max_size=2))
    capacities = [
        make_capacity(f"cap{number}", labels=labels or {}, capacity=f"{size}Gi")
        for number, (labels, size) in enumerate(
            draw(st.lists(st.tuples(places, sizes), max_size=3))
        )
    ]
    of_class = make_class("wait", provisioner, "WaitForFirstConsumer", *allowed)
    drivers = [make_driver()] if draw(st.booleans()) else []
    return nodes, volumes, claims, of_class, drivers, capacities


def _volume(draw, name, size):
    place = draw(places)
    parts = {} if place is None else {"nodeAffinity": reachable_from(**place)}
    kept_for = draw(st.sampled_from([None, None, None, "c0", "c1", "other"]))
    mode = draw(st.sampled_from(["Filesystem", "Filesystem", "Block"]))
    return make_volume(name, f"{size}Gi", kept_for=kept_for, volumeMode=mode, **parts)


def _claim(draw, name, size):
    kind = draw(st.sampled_from(["open", "open", "selected", "bound", "bound to nothing"]))
    if kind == "bound":
        return make_claim(name, f"{size}Gi", bound_to="pv0")
    if kind == "bound to nothing":
        return make_claim(name, f"{size}Gi", bound_to="gone")
    if kind == "selected":
        return make_claim(name, f"{size}Gi", annotations={SELECTED_NODE: draw(_chosen)})
    return make_claim(name, f"{size}Gi")


_chosen = st.sampled_from([*NODES, "gone"])


def size_of(item):
    amounts = getattr(item.spec, "capacity", None) or item.spec.resources.requests
    return quantity.value(amounts["storage"])


def reaches(volume, node):
    affinity = volume.spec.node_affinity
    if affinity is None:
        return True
    (term,) = affinity.required.node_selector_terms
    labels = node.metadata.labels
    return all(labels.get(one.key) in one.values for one in term.match_expressions)


def judged(node, volumes, claims, of_class, drivers, capacities):
    """The reasons against one node, or the volumes taken there and the claims to make some for."""
    reasons = set()
    for claim in claims:
        if claim.spec.volume_name:
            volume = next((one for one in volumes if one.name == claim.spec.volume_name), None)
            if volume is None:
                reasons.add(MISSING)
                break
            if not reaches(volume, node):
                reasons.add(AFFINITY)
                break
    waiting = [claim for claim in claims if not claim.spec.volume_name]
    selected = [claim for claim in waiting if SELECTED_NODE in claim.metadata.annotations]
    if any(claim.metadata.annotations[SELECTED_NODE] != node.name for claim in selected):
        return reasons | {NO_VOLUME}, [], []
    taken, to_make = [], list(selected)
    for claim in sorted((one for one in waiting if one not in selected), key=size_of):
        volume = chosen(claim, volumes, node, [name for _, name in taken])
        if volume is None:
            to_make.append(claim)
        else:
            taken.append((claim.name, volume.name))
    for claim in to_make:
        reason = why_not_made(claim, node, of_class, drivers, capacities)
        if reason:
            return reasons | {reason}, [], []
    return reasons, taken, [claim.name for claim in to_make]


def chosen(claim, volumes, node, taken):
    fitting = [
        volume
        for volume in volumes
        if volume.name not in taken
        and size_of(volume) >= size_of(claim)
        and volume.spec.volume_mode == "Filesystem"
        and (volume.spec.claim_ref is None or volume.spec.claim_ref.name == claim.name)
    ]
    kept = next((volume for volume in fitting if volume.spec.claim_ref is not None), None)
    if kept is not None:
        return kept if reaches(kept, node) else None
    return min((one for one in fitting if reaches(one, node)), key=size_of, default=None)


def why_not_made(claim, node, of_class, drivers, capacities):
    labels = node.metadata.labels
    if of_class.provisioner == "kubernetes.io/no-provisioner":
        return NO_VOLUME
    topologies = [
        {one.key: one.values for one in term.match_label_expressions}
        for term in of_class.allowed_topologies
    ]
    if topologies and not any(
        all(labels.get(key) in values for key, values in term.items()) for term in topologies
    ):
        return NO_VOLUME
    if drivers and not any(
        quantity.value(one.capacity) >= size_of(claim)
        and one.node_topology.match_labels.items() <= labels.items()
        for one in capacities
    ):
        return NO_SPACE
    return None


@given(worlds(), st.data())
@settings(max_examples=200, deadline=None)
def test_every_node_is_judged_as_if_it_were_the_only_one(world, data):
    nodes, volumes, claims, of_class, drivers, capacities = world
    stage = Stage(nodes, *volumes, *claims, of_class, *drivers, *capacities)
    # Some of them under several names of volumes.
    claims = claims + data.draw(st.lists(st.sampled_from(claims), max_size=3))
    pod = using(*(claim.name for claim in claims))
    cycle = stage.prepared(pod)
    got = rejected(stage.plugin, pod, stage.nodes, cycle)
    found = cycle[VolumeBindingState].found
    for row, node in enumerate(nodes):
        reasons, taken, to_make = judged(node, volumes, claims, of_class, drivers, capacities)
        assert got.get(node.name) == ((UNRESOLVABLE, *sorted(reasons)) if reasons else None)
        if not reasons:
            choice = found.on(row)
            assert [(claim.name, one.name) for claim, one in choice.static_bindings] == taken
            assert [claim.name for claim in choice.dynamic_provisions] == to_make


def test_a_volume_taken_on_some_nodes_is_there_for_a_later_claim_on_the_others():
    nodes = [make_node(name, labels={"host": name}) for name in NODES]
    volumes = [
        make_volume("local", "5Gi", nodeAffinity=reachable_from(host="n0")),
        *(make_volume(f"wide{size}", f"{size}Gi") for size in (6, 7, 8)),
    ]
    claims = [make_claim(f"c{number}", "5Gi") for number in range(3)]
    stage = Stage(nodes, *volumes, *claims, make_class("wait", "kubernetes.io/no-provisioner"))
    pod = using("c0", "c1", "c2")
    cycle = stage.prepared(pod)
    assert rejected(stage.plugin, pod, stage.nodes, cycle) == {}
    found = cycle[VolumeBindingState].found
    taken = [
        [volume.name for _, volume in found.on(row).static_bindings] for row in range(len(NODES))
    ]
    assert taken == [["local", "wide6", "wide7"], *[["wide6", "wide7", "wide8"]] * 11]


changes = st.tuples(
    st.sampled_from(["cap0", "cap1"]),
    st.sampled_from([None, {}, {"zone": "a"}, {"host": "n1"}]),
    st.sampled_from(["wait", "other"]),
    st.one_of(st.none(), sizes),
)


@given(st.lists(st.one_of(changes, st.sampled_from(["cap0", "cap1"])), max_size=12))
@settings(deadline=None)
def test_room_is_the_same_however_it_came_to_be(history):
    """A change is a capacity as it is now; a name alone is its deletion."""
    nodes = make_cluster(
        [make_node("n0", labels={"zone": "a"}), make_node("n1", labels={"host": "n1"})]
    )
    informers = Informers()
    followed = Capacities(informers.lister(CSIStorageCapacity))
    for version, change in enumerate(history):
        if isinstance(change, str):
            known = informers.lister(CSIStorageCapacity).get(f"kube-system/{change}")
            if known is not None:
                informers.remove(known)
        else:
            name, labels, of, size = change
            amounts = {} if size is None else {"capacity": f"{size}Gi"}
            informers.put(make_capacity(name, of, labels, str(version), **amounts))
        fresh = Capacities(informers.lister(CSIStorageCapacity))
        for of in ("wait", "other"):
            got, want = (one.room_for(3 * GIB, of, nodes) for one in (followed, fresh))
            assert (got.enough == want.enough).all()
            assert (got.capacity == want.capacity).all()


@st.composite
def told_volumes(draw):
    """A volume in some state; of which size it is, and what else it is called, does not change."""
    number = draw(st.integers(0, 4))
    place = draw(places)
    return make_volume(
        f"pv{number}",
        f"{number + 1}Gi",
        of=draw(st.sampled_from(["wait", "other"])),
        phase=draw(st.sampled_from(["Available", "Available", "Bound"])),
        kept_for=draw(st.sampled_from([None, None, "c0", "x"])),
        labels={"disk": draw(st.sampled_from(["ssd", "hdd"]))},
        nodeAffinity=None if place is None else reachable_from(**place),
    )


CLAIMS = [
    make_claim("c0", "1Gi"),
    make_claim("c1", "2Gi", selector={"matchLabels": {"disk": "ssd"}}),
    make_claim("c2", "3Gi"),
]


@given(st.lists(st.one_of(told_volumes(), st.integers(0, 4)), max_size=12))
@settings(deadline=None)
def test_free_volumes_are_the_same_however_they_came_to_be(history):
    """A change is a volume as it is now; a number alone is its deletion."""
    nodes = make_cluster(
        [
            make_node(name, labels={"host": name, "zone": "ab"[row % 2]})
            for row, name in enumerate(NODES)
        ]
    )
    informers = Informers()
    followed = PVAssumeCache(informers.lister(PersistentVolume))
    for version, change in enumerate(history, 1):
        if isinstance(change, int):
            known = informers.lister(PersistentVolume).get(f"pv{change}")
            if known is not None:
                informers.remove(known)
        else:
            informers.put(in_version(change, version))
        fresh = PVAssumeCache(informers.lister(PersistentVolume))
        got, want = (find_matching_volumes(CLAIMS, volumes, nodes) for volumes in (followed, fresh))
        for row in range(len(NODES)):
            # In the very version that is known, or it could not be assumed.
            assert [match.on(row) for match in got] == [match.on(row) for match in want]
