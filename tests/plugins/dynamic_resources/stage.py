"""DynamicResources in a small cluster, with an API server that is a dictionary.

Listers are real informers; a write reaches them when the test says so, or at once (`watched`).
"""

import asyncio
import json
from itertools import count

from kscheduler.api.core import Pod
from kscheduler.api.decode import convert
from kscheduler.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.client.bodies import (
    new_resource_claim_body,
    pod_status_patch,
    resource_claim_body,
    resource_claim_status_body,
)
from kscheduler.client.errors import Conflict, NotFound
from kscheduler.client.informers.decoding import WRITTEN_BACK, retaining_json, shape_of
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.dra.device_manager import DeviceManager
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Diagnosis
from kscheduler.gotext.duration import Duration
from kscheduler.metrics import Metrics
from kscheduler.plugins.dynamic_resources import DynamicResources
from kscheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.state.cache import Cache
from tests.kit.devices import (
    DRIVER,
    claim_manifest,
    class_manifest,
    request,
    slice_manifest,
)
from tests.kit.objects import make_node
from tests.plugins.topologies import make_pod
from tests.plugins.volumes import Informers

_decode = retaining_json(shape_of(ResourceClaim, ""), WRITTEN_BACK[ResourceClaim]).decode


# As the API server fills it in.
ONE = request(allocationMode="ExactCount", count=1)


def make_claim(name="c", *requests, status=None, **metadata):
    told = claim_manifest(name, *(requests or (ONE,)))
    about = {"namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    told["metadata"] |= about | metadata
    return _decode(json.dumps({**told, "status": status or {}}).encode())


def make_class(name="gpu", **spec):
    told = class_manifest(name, **spec)
    told["metadata"]["resourceVersion"] = "1"
    return convert(told, DeviceClass)


def make_slice(name, devices=1, version="1", **spec):
    told = slice_manifest(name, devices=devices, **spec)
    told["metadata"]["resourceVersion"] = version
    return convert(told, ResourceSlice)


def using(*claims, name="p", **fields):
    """A pod that has claims under names of its own."""
    entries = [{"name": f"as-{one}", "resourceClaimName": one} for one in claims]
    return make_pod(name, resourceClaims=entries, **fields)


class Api:
    """Claims by key, each write a version; `made` are the calls, `failing` answers to come.

    `patches` are those of pods' status.
    """

    def __init__(self, informers):
        self._informers = informers
        self._versions = count(100)
        self._claims = {}
        self.made = []
        self.patches = []
        # By call, the errors of the next calls, in order.
        self.failing = {}
        self.watched = True

    def store(self, claim):
        self._claims[claim.key] = claim
        self._informers.put(claim)

    def stored(self, name="c"):
        return self._claims[f"default/{name}"]

    def change(self, name="c", **status):
        """Somebody else writes the claim."""
        told = json.loads(self.stored(name).whole)
        told["status"] = told.get("status", {}) | status
        return self._written(told)

    async def get_resource_claim(self, claim):
        self._answer("get", claim)
        if claim.key not in self._claims:
            raise NotFound(f'resourceclaims "{claim.name}" not found')
        return self._claims[claim.key]

    async def create_resource_claim(self, claim):
        self._answer("create", claim)
        assert not claim.name
        assert not claim.uid
        told = json.loads(new_resource_claim_body(claim))
        told["metadata"] |= {"name": f"{claim.metadata.generate_name}x", "uid": "given"}
        return self._written(told)

    async def update_resource_claim(self, claim):
        self._answer("update", claim)
        return self._updated(claim, json.loads(resource_claim_body(claim)))

    async def update_resource_claim_status(self, claim):
        self._answer("status", claim)
        # Others may write before the answer comes.
        await asyncio.sleep(0)
        return self._updated(claim, json.loads(resource_claim_status_body(claim)))

    async def unreserve_resource_claim(self, claim, pod: Pod):
        self._answer("unreserve", claim)
        users = json.loads(self._claims[claim.key].whole)["status"].get("reservedFor", [])
        self.change(claim.name, reservedFor=[one for one in users if one["uid"] != pod.uid])

    async def delete_resource_claim(self, claim):
        self._answer("delete", claim)
        self._informers.remove(self._claims.pop(claim.key))

    async def patch_pod_status(self, pod, status):
        self.patches.append(json.loads(pod_status_patch(pod.status, status))["status"])
        named = status.extended_resource_claim_status
        if named is None:
            self._answer("patch", pod)
        else:
            self.made.append(f"patch {named.resource_claim_name}")

    async def clear_node_allocatable_claims(self, pod):
        self._answer("clear", pod)

    def _answer(self, call, claim):
        self.made.append(f"{call} {claim.name}".rstrip())
        errors = self.failing.get(call)
        if errors:
            error = errors.pop(0)
            if error is not None:
                raise error

    def _updated(self, claim, told):
        known = self._claims.get(claim.key)
        if known is None:
            raise NotFound(f'resourceclaims "{claim.name}" not found')
        if known.metadata.resource_version != claim.metadata.resource_version:
            raise Conflict("the object has been modified")
        return self._written(told)

    def _written(self, told):
        told["metadata"]["resourceVersion"] = str(next(self._versions))
        claim = _decode(json.dumps(told).encode())
        self._claims[claim.key] = claim
        if self.watched:
            self._informers.put(claim)
        return claim


class Stage:
    """Nodes n1, n2 … with one device each, unless there are slices, and claims."""

    def __init__(self, *claims, nodes=2, slices=None, classes=None, gates=None, binding=600.0):
        names = [f"n{number + 1}" for number in range(nodes)]
        if slices is None:
            slices = [make_slice(name) for name in names]
        self.cache = Cache()
        self.informers = Informers([*(classes or [make_class()]), *slices])
        for name in names:
            self.cache.add_node(make_node(name))
        self.api = Api(self.informers)
        for claim in claims:
            self.api.store(claim)
        self.metrics = Metrics()
        self.events = []
        self.activated = []
        self.now = 0.0
        self.handle = RuntimeHandle(
            gates=FeatureGates.defaults().apply(gates or {}),
            listers=self.informers,
            snapshot=self.cache.snapshot,
            nominator=None,
            activate=self.activated.extend,
            client=self.api,
            recorder=self,
            metrics=self.metrics,
            clock=lambda: self.now,
            profile_name="default-scheduler",
        )
        self.args = DynamicResourcesArgs(
            filter_timeout=Duration.of(10), binding_timeout=Duration.of(binding)
        )
        self.plugin = DynamicResources(self.args, self.handle)

    def add_node(self, name, **fields):
        self.cache.add_node(make_node(name, **fields))

    def event(self, regarding, kind, reason, action, note):
        self.events.append((reason, note))

    @property
    def nodes(self):
        return self.cache.snapshot()

    def filtered(self, pod):
        """The attempt's memory after Filter, and the refusals by node."""
        cycle = CycleState()
        status = self.plugin.pre_filter(cycle, pod, self.nodes)
        if status is not None:
            return cycle, status.message
        found = {}
        for mask, code, reason in self.plugin.filter(cycle, pod, self.nodes):
            for row in (mask & self.nodes.valid).nonzero()[0].tolist():
                found[self.nodes.name_of(row)] = f"{code.text}: {reason}"
        return cycle, found

    def reserved(self, pod, node="n1"):
        """The attempt's memory after a Reserve that succeeded."""
        cycle, _ = self.filtered(pod)
        assert self.plugin.reserve(cycle, pod, node) is None
        return cycle

    async def bound(self, pod, node="n1"):
        """The attempt's memory after PreBind, and what that said."""
        cycle = self.reserved(pod, node)
        return cycle, await self.plugin.pre_bind(cycle, pod, node)

    async def undo(self, cycle, pod, node="n1"):
        """Unreserve, with what it has to write."""
        left = self.plugin.unreserve(cycle, pod, node)
        if left is not None:
            await left()

    async def post_filtered(self, cycle, pod, refusals):
        """PostFilter's last word on a pod that these nodes refused."""
        diagnosis = Diagnosis()
        for name, told in refusals.items():
            _, _, reason = told.partition(": ")
            rows = self.nodes.rows[[self.nodes.row_of(name)]]
            diagnosis.charge(self.plugin.name, rows, 3, reason)
        result = self.plugin.post_filter(cycle, pod, diagnosis)
        if result.preparation is not None:
            result = await result.preparation()
        return result.status


class Totals(Stage):
    """Totals as text: `devices/in use` by node."""

    def __init__(self, *slices, nodes=2, of=None):
        self.of = of or make_class()
        super().__init__(nodes=nodes, slices=slices, classes=[self.of])
        self.manager: DeviceManager = self.plugin._devices

    @property
    def totals(self):
        found = self.manager.totals.of(self.of, self.nodes)
        pairs = zip(found.capacity.tolist(), found.allocated.tolist(), strict=True)
        return [f"{capacity}/{used}" for capacity, used in pairs]

    def take(self, uid, *devices, pool="n1"):
        results = tuple(
            DeviceRequestAllocationResult(request="r", driver=DRIVER, pool=pool, device=one)
            for one in devices
        )
        allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
        self.manager.allocated.add(uid, allocation)
