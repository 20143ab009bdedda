"""Counts that are kept against counts from scratch, and all nodes at once against one at a time."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.storage import CSINode, StorageClass, VolumeAttachment
from kscheduler.framework.status import Code
from kscheduler.plugins.node_volume_limits import NodeVolumeLimits
from kscheduler.plugins.node_volume_limits.attached_volumes import AttachedVolumes, DriverColumns
from kscheduler.state.what_if import PodsByRow, WhatIf
from tests.plugins.machines import UNSCHEDULABLE, make_node, prepared, rejected
from tests.plugins.topologies import make_pod
from tests.plugins.volumes import (
    Cluster,
    in_version,
    make_attachment,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
)

TOO_MANY = (UNSCHEDULABLE, "node(s) exceed max volume count")
A, EBS = "a.example.com", "ebs.csi.aws.com"
IN_TREE = "awsElasticBlockStore"
DRIVERS = (A, EBS)

nodes = st.sampled_from(["n0", "n0", "n1", "n2"])
claim_names = st.sampled_from(["c0", "c1", "c2", "p0-e"])
volume_names = st.sampled_from(["v0", "v1", "v2"])
mounts = st.one_of(
    st.sampled_from(["c0", "c1", "c2"]).map(lambda c: {"persistentVolumeClaim": {"claimName": c}}),
    st.sampled_from(["h0", "h1", "aws://zone/bad"]).map(lambda h: {IN_TREE: {"volumeID": h}}),
    st.just({"ephemeral": {}}),
    st.just({"emptyDir": {}}),
)
mount_lists = st.lists(mounts, max_size=3)


def using(mounts, name, **spec):
    """A pod's ephemeral volume is named e."""
    volumes = [
        {"name": "e" if "ephemeral" in mount else f"v{number}", **mount}
        for number, mount in enumerate(mounts)
    ]
    return make_pod(name, volumes=volumes, **spec)


def claiming(*claims, name="p0", **spec):
    mounts = [{"persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return using(mounts, name, **spec)


USUAL = (claiming("c0"), claiming("c0", "c1"), claiming("c0", "c2"))


class Oracle:
    """The rules for one node, read from the objects."""

    def __init__(self, informers, prefix):
        self._informers = informers
        self._prefix = prefix

    def _get(self, kind, key):
        return self._informers.lister(kind).get(key)

    def volumes(self, pod, registered, *, new):
        """`driver/handle` → driver; raises ProblemError."""
        found = {}
        for volume in pod.pod.spec.volumes:
            if source := volume.aws_elastic_block_store:
                if registered:
                    if source.volume_id.endswith("bad"):
                        raise ProblemError(Code.ERROR)
                    found[f"{EBS}/{source.volume_id}"] = EBS
                continue
            name = "" if volume.persistent_volume_claim is None else _claim_of(volume)
            if volume.ephemeral is not None:
                name = f"{pod.name}-{volume.name}"
            if not name:
                continue
            claim = self._get(PersistentVolumeClaim, f"default/{name}")
            if claim is None:
                if new:
                    raise ProblemError(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
                continue
            if volume.ephemeral is not None and not claim.metadata.owner_references:
                raise ProblemError(Code.ERROR)
            driver, handle = self._of_claim(claim, registered)
            if driver:
                found[f"{driver}/{handle}"] = driver
        return found

    def _of_claim(self, claim, registered):
        volume = self._get(PersistentVolume, claim.spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            return volume.spec.csi.driver, volume.spec.csi.volume_handle
        if volume is not None:
            source = volume.spec.aws_elastic_block_store
            return (EBS, source.volume_id) if source and registered else ("", "")
        of_class = self._get(StorageClass, claim.spec.storage_class_name or "")
        if of_class is None:
            return "", ""
        handle = f"{self._prefix}-{claim.key}"
        if of_class.provisioner == "kubernetes.io/aws-ebs":
            return (EBS, handle) if registered else ("", "")
        return of_class.provisioner, handle

    def judge(self, pod, node, others, required):
        """Code and perhaps reason against the pod there; None if it fits."""
        csi_node = self._get(CSINode, node)
        try:
            new = self.volumes(pod, csi_node is not None, new=True)
        except ProblemError as problem:
            return problem.code
        if not new:
            return None
        listed = csi_node.spec.drivers or () if csi_node is not None else ()
        installed = {driver.name for driver in listed}
        if any(driver in required and driver not in installed for driver in new.values()):
            return Code.UNSCHEDULABLE
        limits = {one.name: one.allocatable.count for one in listed if one.allocatable}
        if not limits:
            return None
        used = {}
        try:
            for other in others:
                used |= self.volumes(other, registered=True, new=False)
        except ProblemError:
            return Code.ERROR
        attached = dict(used)
        for one in self._informers.lister(VolumeAttachment).items():
            volume = self._get(PersistentVolume, one.spec.source.persistent_volume_name)
            if one.spec.node_name == node and volume is not None and volume.spec.csi is not None:
                attached[f"{one.spec.attacher}/{volume.spec.csi.volume_handle}"] = one.spec.attacher
        for driver, limit in limits.items():
            here = sum(by == driver for by in attached.values())
            coming = sum(by == driver for volume, by in new.items() if volume not in used)
            if coming and here + coming > limit:
                return TOO_MANY
        return None


class ProblemError(Exception):
    def __init__(self, code):
        super().__init__(code.text)
        self.code = code


def _claim_of(volume):
    return volume.persistent_volume_claim.claim_name


class Volumes(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.cluster = Cluster([])
        self.plugin = NodeVolumeLimits(None, self.cluster.handle)
        self.oracle = Oracle(self.cluster.informers, self.plugin._resolver._prefix)
        self.version = 0
        self.nodes = {}
        self.pods = {}
        self.required = set()
        # Something to begin with: a node that is soon full.
        self.node_comes("n0")
        self.put(make_csi_node("n0", drivers={A: 1, EBS: 1}))
        for number, driver in enumerate((A, EBS, A)):
            source = {"driver": driver, "volumeHandle": f"h{number}"}
            self.put(make_volume(f"v{number}", csi=source))
            self.put(make_claim(f"c{number}", of="a", bound_to=f"v{number}"))
        self.pods["p1"] = claiming("c0", name="p1", nodeName="n0")
        self.cluster.cache.add_pod(self.pods["p1"])

    def put(self, item):
        self.version += 1
        self.cluster.informers.put(in_version(item, self.version))

    def remove(self, kind, key):
        known = self.cluster.informers.lister(kind).get(key)
        if known is not None:
            self.cluster.informers.remove(known)

    @rule(name=nodes)
    def node_comes(self, name):
        if name not in self.nodes:
            self.nodes[name] = make_node(name)
            self.cluster.cache.add_node(self.nodes[name])

    @rule(name=nodes)
    def node_goes(self, name):
        if name in self.nodes:
            self.cluster.cache.remove_node(self.nodes.pop(name))

    @rule(name=st.sampled_from(["p0", "p1", "p2", "p3"]), node=nodes, mounts=mount_lists)
    def pod_comes_or_goes(self, name, node, mounts):
        if name in self.pods:
            self.cluster.cache.remove_pod(self.pods.pop(name))
        else:
            self.pods[name] = using(mounts, name, nodeName=node)
            self.cluster.cache.add_pod(self.pods[name])

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), mounts=mount_lists)
    def pod_changes(self, data, mounts):
        old = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        new = self.pods[old.name] = using(mounts, old.name, nodeName=old.node_name)
        self.cluster.cache.update_pod(old, new)

    @rule(
        name=claim_names,
        of=st.sampled_from(["", "a", "ebs"]),
        bound_to=st.one_of(st.just(""), volume_names),
        owned=st.booleans(),
    )
    def claim(self, name, of, bound_to, owned):
        owners = [{"uid": "uid-p0", "controller": True}] if owned else []
        self.put(make_claim(name, of=of, bound_to=bound_to, owners=owners))

    @rule(name=claim_names)
    def claim_goes(self, name):
        self.remove(PersistentVolumeClaim, f"default/{name}")

    @rule(
        name=volume_names,
        source=st.sampled_from(
            [
                {},
                {"csi": {"driver": A, "volumeHandle": "h0"}},
                {"csi": {"driver": A, "volumeHandle": "h1"}},
                {"csi": {"driver": EBS, "volumeHandle": "h0"}},
                {IN_TREE: {"volumeID": "h1"}},
            ]
        ),
    )
    def volume(self, name, source):
        self.put(make_volume(name, **source))

    @rule(name=volume_names)
    def volume_goes(self, name):
        self.remove(PersistentVolume, name)

    @rule(name=st.sampled_from(["a", "ebs"]), plugin=st.sampled_from([A, "kubernetes.io/aws-ebs"]))
    def of_class(self, name, plugin):
        self.put(make_class(name, plugin))

    @rule(name=st.sampled_from(["a", "ebs"]))
    def class_goes(self, name):
        self.remove(StorageClass, name)

    @rule(
        name=nodes,
        drivers=st.dictionaries(
            st.sampled_from(DRIVERS), st.one_of(st.none(), st.integers(0, 3)), max_size=2
        ),
    )
    def drivers_of_node(self, name, drivers):
        self.put(make_csi_node(name, drivers=drivers))

    @rule(name=nodes)
    def drivers_of_node_go(self, name):
        self.remove(CSINode, name)

    @rule(
        name=st.sampled_from(["x", "y"]),
        node=nodes,
        volume=volume_names,
        attacher=st.sampled_from(DRIVERS),
    )
    def attached(self, name, node, volume, attacher):
        self.put(make_attachment(name, node=node, volume=volume, attacher=attacher))

    @rule(name=st.sampled_from(["x", "y"]))
    def detached(self, name):
        self.remove(VolumeAttachment, name)

    @rule(driver=st.sampled_from(DRIVERS), required=st.booleans())
    def driver(self, driver, required):
        self.put(make_driver(driver, required=required))
        self.required = self.required | {driver} if required else self.required - {driver}

    @invariant()
    def usual_pods_go_where_they_may(self):
        view = self.cluster.nodes
        pods_on = {name: list(view.pods(view.row_of(name))) for name in self.nodes}
        for pod in USUAL:
            cycle = prepared(self.plugin, pod, view)
            self.compare(pod, view, cycle, pods_on)
            self.evict(pod, cycle, pods_on)

    @precondition(lambda self: self.nodes)
    @rule(mounts=mount_lists, data=st.data())
    def decide(self, mounts, data):
        pod, view = using(mounts, "p0"), self.cluster.nodes
        pods_on = {name: list(view.pods(view.row_of(name))) for name in self.nodes}
        cycle = prepared(self.plugin, pod, view)
        if cycle == "Skip":
            return
        self.compare(pod, view, cycle, pods_on)
        self.compare(pod, view.take(view.order[::-1]), cycle, pods_on)
        self.what_if(pod, cycle, pods_on, data)

    def evict(self, pod, cycle, pods_on):
        """Without all pods, and then with one of each node; what is left and who."""
        view = self.cluster.nodes
        evicted = {view.row_of(name): pods for name, pods in pods_on.items() if pods}
        eviction, pods = WhatIf(view), PodsByRow(evicted)
        eviction.remove(pods)
        self.compare(pod, eviction.nodes, cycle, {name: [] for name in self.nodes})
        eviction.add(pods.some(pods.first_of_row))
        there = {name: on_node[:1] for name, on_node in pods_on.items()}
        self.compare(pod, eviction.nodes, cycle, there)
        return eviction.nodes, there

    def what_if(self, pod, cycle, pods_on, data):
        supposed, there = self.evict(pod, cycle, pods_on)
        branch = WhatIf(supposed)
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        other = using(data.draw(mount_lists), "p9", nodeName=name)
        branch.add_pod(other, supposed.row_of(name))
        there[name] = [*there[name], other]
        self.compare(pod, branch.nodes, cycle, there)

    def compare(self, pod, view, cycle, pods_on):
        found = rejected(self.plugin, pod, view, cycle)
        for name in self.nodes:
            want = self.oracle.judge(pod, name, pods_on[name], self.required)
            got = found.get(name)
            if isinstance(want, Code):
                assert got is not None
                assert got[0] == want.text
            else:
                assert got == want

    @invariant()
    def columns_equal_those_worked_out_anew(self):
        kept, view = self.plugin._attached, self.cluster.nodes
        kept.refresh(view)
        fresh = AttachedVolumes(self.cluster.informers, self.plugin._resolver)
        fresh.refresh(view)
        assert kept.rows == fresh.rows
        assert np.array_equal(kept.has_csi_node, fresh.has_csi_node)
        assert np.array_equal(kept.has_limits, fresh.has_limits)
        assert kept.problems == fresh.problems
        assert kept._readers == fresh._readers
        assert kept._users == fresh._users
        length = len(fresh.rows)
        for driver in DRIVERS:
            mine, theirs = (one.driver(driver) or DriverColumns(length) for one in (kept, fresh))
            assert np.array_equal(mine.room, theirs.room)
            assert np.array_equal(mine.installed, theirs.installed)


TestVolumes = Volumes.TestCase
TestVolumes.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
