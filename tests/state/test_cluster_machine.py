"""Whatever happens in whatever order, the columns equal those of a plain model of the cluster."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kscheduler.api.core import (
    RBD,
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    GCEPersistentDisk,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Taint,
    Volume,
    WeightedPodAffinityTerm,
)
from kscheduler.api.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    selector_from_labels,
)
from kscheduler.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kscheduler.api.node_selector import RequiredNodeAffinity, compile_node_selector
from kscheduler.state.affinity_term import AffinityTerm, TermKind
from kscheduler.state.cache import Cache
from kscheduler.state.disks import DiskUse
from kscheduler.state.host_ports import HostPort
from kscheduler.state.nodes import zone_key
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.what_if import PodsByRow, WhatIf

ZONE = "topology.kubernetes.io/zone"
NAMESPACE_LABELS = {"blue": {"team": "b"}, "red": {"team": "r"}}


def ports_conflict(wanted, used):
    same_port = (wanted.protocol, wanted.port) == (used.protocol, used.port)
    return same_port and (wanted.ip == used.ip or "0.0.0.0" in (wanted.ip, used.ip))


def disks_conflict(wanted, used):
    return wanted.disk == used.disk and (wanted.writes or used.writes)


node_names = st.sampled_from(["n0", "n1", "n2", "n3", "n4"])
uids = st.sampled_from([f"u{i}" for i in range(8)])


def optional(key, *values):
    return st.sampled_from([{}, *({key: value} for value in values)])


def merged(*parts):
    return st.tuples(*parts).map(lambda dicts: {k: v for d in dicts for k, v in d.items()})


node_labels = merged(
    optional(ZONE, "a", "b"), optional("disk", "ssd", "hdd"), optional("num", "7", "012", "x")
)
taints = st.sampled_from(
    [(), (Taint("k", "v", "NoSchedule"),), (Taint("k", "w", "NoExecute", "2026-01-01T00:00:00Z"),)]
)
allocatables = merged(
    optional("cpu", "4", "1500m"),
    optional("memory", "1Gi", "100.5"),
    optional("pods", "110"),
    optional("x.io/gpu", "2", "0"),
    optional("hugepages-2Mi", "4Mi"),
    optional("unknown", "3"),
)
images = st.lists(
    st.builds(
        ContainerImage,
        names=st.sampled_from([("a:1",), ("b:1", "b@sha"), ("a:1", "b:1")]),
        size_bytes=st.integers(1, 3),
    ),
    max_size=2,
).map(tuple)
features = st.sampled_from([(), ("VolumeBindMountOptions",), ("AAA", "ExtendWebSocketsToKubelet")])


@st.composite
def nodes(draw, name):
    return Node(
        ObjectMeta(name=name, labels=draw(node_labels)),
        NodeSpec(unschedulable=draw(st.booleans()), taints=draw(taints)),
        NodeStatus(
            allocatable=draw(allocatables),
            images=draw(images),
            declared_features=draw(features),
        ),
    )


pod_labels = merged(optional("app", "web", "db"), optional("tier", "front"), optional("x", "1"))
requests = merged(
    optional("cpu", "100m", "1.5"),
    optional("memory", "64Mi"),
    optional("x.io/gpu", "1"),
    optional("y.io/fpga", "1"),
    optional("unknown", "1"),
)
ports = st.sampled_from(
    [
        (),
        (ContainerPort(80, 80),),
        (ContainerPort(80, 80, "10.0.0.1"), ContainerPort(53, 53, "", "UDP")),
    ]
)
claimed = st.sampled_from(
    [
        (),
        (Volume("v", persistent_volume_claim=PersistentVolumeClaimSource("c")),),
        (
            Volume("v", persistent_volume_claim=PersistentVolumeClaimSource("c")),
            Volume("w", persistent_volume_claim=PersistentVolumeClaimSource("c")),
            Volume("x", persistent_volume_claim=PersistentVolumeClaimSource("d")),
        ),
    ]
)
disks = st.sampled_from(
    [
        (),
        (Volume("d", gce_persistent_disk=GCEPersistentDisk("d")),),
        (
            Volume("d", gce_persistent_disk=GCEPersistentDisk("d", read_only=True)),
            Volume("r", rbd=RBD(("m", "n"), "p", "i", read_only=True)),
        ),
        (Volume("r", rbd=RBD(("n",), "p", "i")),),
    ]
)
volumes = st.tuples(claimed, disks).map(lambda both: both[0] + both[1])
WEB, FRONT = LabelSelector({"app": "web"}), LabelSelector({"tier": "front"})
# Few enough for pods to carry the same ones.
terms = st.sampled_from(
    [
        PodAffinityTerm(WEB, (), ZONE),
        PodAffinityTerm(WEB, ("blue", "red"), "rack"),
        PodAffinityTerm(FRONT, ("red",), ZONE, LabelSelector({"team": "b"})),
        PodAffinityTerm(
            LabelSelector({}, (LabelSelectorRequirement("app", "NotIn", ("web",)),)),
            (),
            "kubernetes.io/hostname",
            LabelSelector(),
        ),
        PodAffinityTerm(
            LabelSelector({}, (LabelSelectorRequirement("app", "Exists"),)), ("blue",), ZONE
        ),
        PodAffinityTerm(None, (), ZONE),
    ]
)
term_lists = st.lists(terms, max_size=2).map(tuple)
weighted_lists = st.lists(
    st.builds(WeightedPodAffinityTerm, st.integers(1, 2), terms), max_size=2
).map(tuple)
pod_affinities = st.none() | st.builds(PodAffinity, term_lists, weighted_lists)
affinities = st.none() | st.builds(
    Affinity, pod_affinity=pod_affinities, pod_anti_affinity=pod_affinities
)


@st.composite
def pods(draw, uid, node_name=""):
    container = Container(
        "c", ports=draw(ports), resources=ResourceRequirements(requests=draw(requests))
    )
    deleted = draw(st.sampled_from([None, None, "2026-01-01T00:00:00Z"]))
    metadata = ObjectMeta(
        name=uid,
        namespace="blue" if uid < "u4" else "red",
        uid=uid,
        labels=draw(pod_labels),
        deletion_timestamp=deleted,
    )
    spec = PodSpec(
        node_name=node_name,
        containers=(container,),
        volumes=draw(volumes),
        affinity=draw(affinities),
    )
    return PodInfo(Pod(metadata, spec))


POD_SELECTORS = [
    EVERYTHING,
    NOTHING,
    selector_from_labels({"app": "web"}),
    selector_from_labels({"app": "db", "tier": "front"}),
    Selector([Requirement("app", Operator.IN, frozenset({"web", "db"}))]),
    Selector([Requirement("app", Operator.NOT_IN, frozenset({"web"}))]),
    Selector([Requirement("tier", Operator.EXISTS)]),
    Selector([Requirement("x", Operator.DOES_NOT_EXIST)]),
]
NAMESPACES = [None, frozenset({"blue"}), frozenset({"red"}), frozenset({"blue", "red"})]


def node_selector(*terms):
    return compile_node_selector(NodeSelector(terms))


NODE_QUERIES = [
    EVERYTHING,
    NOTHING,
    selector_from_labels({"disk": "ssd"}),
    node_selector(),
    node_selector(
        NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("num", "Gt", ("6",)),))
    ),
    node_selector(
        NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("num", "Lt", ("9",)),))
    ),
    node_selector(
        NodeSelectorTerm(
            match_expressions=(
                NodeSelectorRequirement(ZONE, "In", ("a", "z")),
                NodeSelectorRequirement("disk", "NotIn", ("ssd",)),
            )
        ),
        NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "In", ("n1",)),)),
    ),
    RequiredNodeAffinity(
        selector_from_labels({"disk": "hdd"}),
        node_selector(
            NodeSelectorTerm(
                match_expressions=(NodeSelectorRequirement(ZONE, "Exists"),),
                match_fields=(NodeSelectorRequirement("metadata.name", "NotIn", ("n2",)),),
            )
        ),
    ),
]
QUESTIONS = [
    (HostPort(ip, protocol, port))
    for ip in ("0.0.0.0", "10.0.0.1", "10.0.0.2")
    for protocol, port in (("TCP", 80), ("UDP", 53))
]

DISK_QUESTIONS = [
    DiskUse(disk, writes)
    for disk in (("gce", "d"), ("rbd", "p", "i", "m"), ("rbd", "p", "i", "n"), ("ebs", "d"))
    for writes in (True, False)
]


class Model:
    """The cluster in dictionaries, as simple as can be."""

    def __init__(self):
        self.nodes = {}
        self.pods = {}
        self.assumed = set()
        self.ports = {}
        self.images = {}
        self.zones = {}
        self.order = []

    def put_node(self, node):
        known = self.nodes.get(node.name)
        self.forget_images(known)
        self.nodes[node.name] = node
        for image in node.status.images:
            for name in image.names:
                self.images.setdefault(name, (image.size_bytes, set()))[1].add(node.name)
        if known is None or zone_key(known.metadata.labels) != zone_key(node.metadata.labels):
            self.leave_zone(node.name)
            self.zones.setdefault(zone_key(node.metadata.labels), []).append(node.name)
        if known is None:
            self.ports[node.name] = {
                port for pod in self.pods_on(node.name) for port in pod.host_ports
            }
            self.reorder()

    def remove_node(self, name):
        self.forget_images(self.nodes.pop(name))
        self.leave_zone(name)
        del self.ports[name]
        self.reorder()

    def forget_images(self, node):
        for image in node.status.images if node else ():
            for name in image.names:
                if name in self.images:
                    self.images[name][1].discard(node.name)
                    if not self.images[name][1]:
                        del self.images[name]

    def leave_zone(self, name):
        for zone, members in list(self.zones.items()):
            if name in members:
                members.remove(name)
            if not members:
                del self.zones[zone]

    def reorder(self):
        longest = max(map(len, self.zones.values()), default=0)
        self.order = [
            members[turn]
            for turn in range(longest)
            for members in self.zones.values()
            if turn < len(members)
        ]

    def pods_on(self, name):
        return [pod for pod in self.pods.values() if pod.node_name == name]

    def put_pod(self, pod):
        self.pods[pod.uid] = pod
        if pod.node_name in self.nodes:
            self.ports[pod.node_name].update(pod.host_ports)

    def remove_pod(self, uid):
        pod = self.pods.pop(uid)
        self.assumed.discard(uid)
        if pod.node_name in self.nodes:
            self.ports[pod.node_name].difference_update(pod.host_ports)
        return pod

    def copy(self):
        twin = Model()
        twin.nodes, twin.pods = dict(self.nodes), dict(self.pods)
        twin.ports = {name: set(ports) for name, ports in self.ports.items()}
        twin.images, twin.order = self.images, self.order
        return twin


def by_row(view, names, value_of, default):
    """What `value_of` says of each node, in the view's positions."""
    return [value_of(name) if name in names else default for name in view.names]


def check_node_columns(view, model):
    def column(value_of, default=0):
        return by_row(view, model.nodes, lambda name: value_of(model.nodes[name]), default)

    known = {"cpu", "memory", "ephemeral-storage", "x.io/gpu", "hugepages-2Mi"}
    units = {"4": 4, "1500m": 2, "1Gi": 2**30, "100.5": 101, "2": 2, "0": 0, "4Mi": 2**22}
    for name in known:

        def offered(node, name=name):
            quantity = node.status.allocatable.get(name, "0")
            return (
                {"4": 4000, "1500m": 1500, "0": 0}[quantity] if name == "cpu" else units[quantity]
            )

        at = view.resources.get(name)
        found = view.allocatable[:, at].tolist() if at is not None else [0] * len(view)
        assert found == column(offered)
    assert view.valid.tolist() == column(lambda node: True, False)
    assert view.unschedulable.tolist() == column(lambda node: node.spec.unschedulable, False)
    assert view.max_pods.tolist() == column(lambda n: int(n.status.allocatable.get("pods", "0")))
    assert [
        [(taint.key, taint.value, taint.effect) for taint in view.taint_sets[number]]
        for number in view.taint_set
    ] == column(lambda n: [(t.key, t.value, t.effect) for t in n.spec.taints], [])
    bits = {"VolumeBindMountOptions": 1 << 8, "ExtendWebSocketsToKubelet": 1 << 2, "AAA": 0}
    assert view.declared_features.tolist() == column(
        lambda node: sum(bits[name] for name in node.status.declared_features)
    )


def check_labels(view, model):
    for key in (ZONE, "disk", "num", "absent"):
        wanted = by_row(
            view, model.nodes, lambda n, k=key: model.nodes[n].metadata.labels.get(k), None
        )
        values = {code: value for value, code in view.label_values(key).items()}
        codes = view.label(key)
        assert [values.get(code) for code in codes.tolist()] == wanted
        assert set(values.values()) <= {
            node.metadata.labels.get(key) for node in model.nodes.values()
        }
        assert (codes < view.label_count(key)).all()
        numbers, valid = view.label_numbers(key)
        found = [n if ok else None for n, ok in zip(numbers.tolist(), valid.tolist(), strict=True)]
        assert found == [int(value) if value and value.isdigit() else None for value in wanted]
    for query in NODE_QUERIES:
        assert view.selector_mask(query).tolist() == by_row(
            view,
            model.nodes,
            lambda name, query=query: matches(query, model.nodes[name]),
            False,
        )


def matches(query, node):
    if isinstance(query, Selector):
        return query.matches(node.metadata.labels)
    return query.matches(node.metadata.labels, node.name)


def check_images(view, model):
    for name in ("a:1", "b:1", "b@sha", "c:1"):
        found = view.image(name)
        wanted = model.images.get(name)
        if wanted is None:
            assert found is None
        else:
            size, holders = wanted
            assert (found.size, found.node_count) == (size, len(holders))
            assert found.mask.tolist() == [held in holders for held in view.names]


def check_occupancy(view, model):
    on = {name: model.pods_on(name) for name in model.nodes}

    def total(value_of):
        return by_row(view, on, lambda name: sum(map(value_of, on[name])), 0)

    for name in ("cpu", "memory", "ephemeral-storage", "x.io/gpu", "y.io/fpga", "hugepages-2Mi"):
        at = view.resources.get(name)
        wanted = total(lambda pod, name=name: pod.requests.get(name, 0))
        if at is not None:
            assert view.requested[:, at].tolist() == wanted
    assert view.nonzero_requested[:, 0].tolist() == total(lambda pod: pod.nonzero_cpu)
    assert view.nonzero_requested[:, 1].tolist() == total(lambda pod: pod.nonzero_memory)
    assert view.pod_count.tolist() == total(lambda pod: 1)
    for position, name in enumerate(view.names):
        assert {pod.uid for pod in view.pods(position)} == {pod.uid for pod in on.get(name, ())}
    for port in QUESTIONS:
        assert view.port_in_use(*port).tolist() == by_row(
            view,
            model.ports,
            lambda name, port=port: any(ports_conflict(port, used) for used in model.ports[name]),
            False,
        )
    for wanted in DISK_QUESTIONS:
        assert view.disk_in_use(wanted).tolist() == by_row(
            view,
            on,
            lambda name, wanted=wanted: any(
                disks_conflict(wanted, used) for pod in on[name] for used in pod.disks
            ),
            False,
        )
    live = [pod for pods in on.values() for pod in pods]
    for claim in ("blue/c", "red/c", "blue/d", "red/d"):
        assert view.pvc_in_use(claim) == any(claim in pod.claims for pod in live)


def check_index(view, model, namespaces_and_selectors):
    rows = {name: row for row, name in enumerate(view.whole.names) if name}
    placed = [(pod, rows[pod.node_name]) for pod in model.pods.values() if pod.node_name in rows]

    def counted(wanted):
        counts = [0] * len(view)
        for pod, row in placed:
            counts[row] += wanted(pod)
        return counts

    for namespaces, selector in namespaces_and_selectors:
        for terminating in (True, False):
            found = view.index.matching(namespaces, selector, terminating=terminating)
            assert found.tolist() == counted(
                lambda pod, ns=namespaces, sel=selector, all_pods=terminating: (
                    (all_pods or not pod.terminating)
                    and (ns is None or pod.namespace in ns)
                    and sel.matches(pod.labels)
                )
            )
    both = [
        AffinityTerm({"blue"}, None, POD_SELECTORS[2], ZONE),
        AffinityTerm((), EVERYTHING, POD_SELECTORS[6], ZONE),
    ]
    assert view.index.matching_all(both).tolist() == counted(
        lambda pod: all(term.matches(pod.namespace, pod.labels, {}) for term in both)
    )
    check_carried(view, placed)


def check_carried(view, placed):
    for number, keys in enumerate(({ZONE, "rack", "elsewhere"}, {ZONE}, set())):
        labels = SimpleNamespace(label_keys=keys, label_generation=number)
        check_carried_over(keys, labels, view, placed)


def check_carried_over(keys, node_labels, view, placed):
    for namespace, labels in [("blue", {"app": "web"}), ("red", {"tier": "front", "app": "db"})]:
        asking = PodInfo(Pod(ObjectMeta(name="q", namespace=namespace, uid="q", labels=labels)))
        for kind in TermKind:
            wanted = {}
            number = Counter()
            for pod, row in placed:
                for carried_as, term, weight in pod.carried_terms:
                    if carried_as is not kind:
                        continue
                    number[term.topology_key] += 1
                    if term.topology_key in keys and term.matches(
                        namespace, labels, NAMESPACE_LABELS[namespace]
                    ):
                        wanted.setdefault(term.topology_key, Counter())[row] += weight
            found = view.index.carried(kind, asking, NAMESPACE_LABELS[namespace], node_labels)
            assert {
                key: {row: weight * count for row, count in enumerate(counts.tolist()) if count}
                for key, weight, counts in found
            } == wanted
            assert len(found) == len(wanted)
            for key in (ZONE, "rack", "elsewhere"):
                assert view.index.number_carried(kind, key) == number[key]


class Cluster(RuleBasedStateMachine):
    @initialize(
        asked=st.lists(
            st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(POD_SELECTORS)), max_size=4
        )
    )
    def start(self, asked):
        self.cache = Cache()
        self.model = Model()
        self.asked = list(asked)

    @rule(data=st.data(), name=node_names)
    def put_node(self, data, name):
        node = data.draw(nodes(name))
        if name in self.model.nodes:
            self.cache.update_node(node)
        else:
            self.cache.add_node(node)
        self.model.put_node(node)

    @precondition(lambda self: self.model.nodes)
    @rule(data=st.data())
    def remove_node(self, data):
        name = data.draw(st.sampled_from(sorted(self.model.nodes)))
        self.cache.remove_node(self.model.nodes[name])
        self.model.remove_node(name)

    @rule(data=st.data(), uid=uids, name=node_names)
    def pod_event(self, data, uid, name):
        known = self.model.pods.get(uid)
        stays = known is not None and uid not in self.model.assumed
        pod = data.draw(pods(uid, known.node_name if stays else name))
        if stays:
            self.cache.update_pod(known, pod)
        else:
            self.cache.add_pod(pod)
        if known is not None:
            self.model.remove_pod(uid)
        self.model.put_pod(pod)

    @precondition(lambda self: self.model.pods)
    @rule(data=st.data())
    def remove_pod(self, data):
        uid = data.draw(st.sampled_from(sorted(self.model.pods)))
        pod = self.model.pods[uid]
        if uid in self.model.assumed:
            self.cache.forget(pod)
        else:
            self.cache.remove_pod(pod)
        self.model.remove_pod(uid)

    @rule(data=st.data(), uid=uids, name=node_names)
    def assume(self, data, uid, name):
        if uid in self.model.pods:
            return
        pod = data.draw(pods(uid)).assigned_to(name)
        self.cache.assume(pod)
        self.model.put_pod(pod)
        self.model.assumed.add(uid)

    @rule(namespaces=st.sampled_from(NAMESPACES), selector=st.sampled_from(POD_SELECTORS))
    def ask_more(self, namespaces, selector):
        self.asked.append((namespaces, selector))

    @precondition(lambda self: self.model.nodes)
    @rule(data=st.data(), changes=st.integers(1, 4), late=st.booleans())
    def what_if(self, data, changes, late):
        view = self.cache.snapshot()
        if data.draw(st.booleans()):
            view = WhatIf(view).nodes
        branch, model = WhatIf(view), self.model.copy()
        for number in range(changes):
            placed = sorted(u for u, pod in model.pods.items() if pod.node_name in model.nodes)
            if placed and data.draw(st.booleans()):
                pod = model.remove_pod(data.draw(st.sampled_from(placed)))
                branch.remove_pod(pod, view.row_of(pod.node_name))
            else:
                name = data.draw(st.sampled_from(sorted(model.nodes)))
                pod = data.draw(pods(f"u{number}-new", name))
                branch.add_pod(pod, view.row_of(name))
                model.put_pod(pod)
            if not late:
                check_index(branch.nodes, model, self.asked)
        check_occupancy(branch.nodes, model)
        check_index(branch.nodes, model, self.asked)
        check_node_columns(branch.nodes, self.model)

    @precondition(lambda self: self.model.nodes)
    @rule(data=st.data())
    def what_if_evicted(self, data):
        view, model = self.cache.snapshot(), self.model.copy()
        rows = [view.row_of(name) for name in model.nodes if model.pods_on(name)]
        evicted = {row: list(view.pods(row)) for row in rows if data.draw(st.booleans())}
        eviction, gone = WhatIf(view), PodsByRow(evicted)
        eviction.remove(gone)
        for pod in gone.pods:
            model.remove_pod(pod.uid)
        check_occupancy(eviction.nodes, model)
        eviction.add(gone.some(gone.first_of_row))
        for number in gone.first_of_row.tolist():
            model.put_pod(gone.pods[number])
        check_occupancy(eviction.nodes, model)
        check_index(eviction.nodes, model, self.asked)

    @invariant()
    def columns_equal_the_model(self):
        view = self.cache.snapshot()
        assert view.total == len(self.model.nodes)
        assert [view.names[row] for row in view.order] == self.model.order
        check_node_columns(view, self.model)
        check_labels(view, self.model)
        check_images(view, self.model)
        check_occupancy(view, self.model)
        check_index(view, self.model, self.asked)
        assert self.cache.pod_count == len(self.model.pods)
        assert self.cache.assumed_pod_count == len(self.model.assumed)
        hosts = {pod.node_name for pod in self.model.pods.values()} | set(self.model.nodes)
        assert set(self.cache.node_names) == hosts
        assert self.cache.node_count == len(hosts)

    @invariant()
    def narrowed_views_agree(self):
        view = self.cache.snapshot()
        narrowed = view.take(view.valid).take(view.order[::-1])
        check_node_columns(narrowed, self.model)
        check_labels(narrowed, self.model)
        check_images(narrowed, self.model)
        check_occupancy(narrowed, self.model)

    @invariant()
    def nothing_shown_can_be_written(self):
        view = self.cache.snapshot()
        arrays = [
            view.rows,
            view.valid,
            view.allocatable,
            view.requested,
            view.order,
            view.label(ZONE),
            view.selector_mask(EVERYTHING),
            view.index.matching(None, EVERYTHING, terminating=True),
        ]
        assert not any(array.flags.writeable for array in arrays)
        assert view.requested[:, 0].flags.c_contiguous
        assert np.array_equal(view.rows, np.arange(len(view)))


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
