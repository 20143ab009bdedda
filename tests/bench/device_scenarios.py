"""Pods with devices, as upstream's scheduler_perf has them.

There is no kube-controller-manager. What its claim controller does for a pod whose claim comes from
a template is done here: the claim, which the pod owns, and its name in the pod's status; and when
the pod is gone, the end of its allocation. Deallocated claims are left behind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from tests.bench import devices
from tests.bench.devices import CLAIM, TEMPLATE, Inventory
from tests.bench.quick_client import Request
from tests.bench.scenario import (
    NODES,
    PODS,
    Scenario,
    Size,
    create,
    delete,
    measured,
    named,
    node_name,
    patch,
)
from tests.bench.workloads import NAMESPACE, Json, node

GROUP = "/apis/resource.k8s.io/v1"
SLICES = f"{GROUP}/resourceslices"
CLASSES = f"{GROUP}/deviceclasses"
CLAIMS = f"{GROUP}/namespaces/{NAMESPACE}/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/{NAMESPACE}/resourceclaimtemplates"
AT_A_TIME = 10
PODS_PER_SHARED_CLAIM = 5
CARDS = 10
FREED = {"status": {"allocation": None, "reservedFor": None}}

# How many claims are allocated from the start, by the number that fit.
Fill = Callable[[int], int]


def empty(room: int) -> int:
    return 0


def half(room: int) -> int:
    return room // 2


def full(room: int) -> int:
    """All but as many as there are pods at a time."""
    return room - AT_A_TIME


def node_with(inventory: Inventory, number: int) -> Iterator[Request]:
    body = node(number)
    yield create(NODES, body)
    for one in inventory.slices(body["metadata"]["name"]):
        yield create(SLICES, one)


class Allocated:
    """Claims that hold devices from the start, and no pod's."""

    def __init__(self, inventory: Inventory, spec: Json, fill: Fill) -> None:
        self._inventory = inventory
        self._spec = spec
        self._fill = fill

    def _count(self, size: Size) -> int:
        return self._fill(size.nodes * len(self._inventory.results))

    def claims(self, size: Size) -> Iterator[Request]:
        for number in range(self._count(size)):
            yield create(CLAIMS, devices.claim(f"allocated-{number:06d}", self._spec))

    def statuses(self, size: Size) -> Iterator[Request]:
        nodes = [node_name(number, size) for number in range(size.nodes)]
        allocations = self._inventory.allocations(nodes, self._count(size))
        for number, allocation in enumerate(allocations):
            path = f"{CLAIMS}/allocated-{number:06d}/status"
            yield patch(path, {"status": {"allocation": allocation}})


def generated(spec: Json, name: str, uid: str) -> Iterator[Request]:
    """What the claim controller writes for a new pod."""
    body = devices.generated_claim(name, uid, spec)
    yield create(CLAIMS, body)
    known = {"name": CLAIM, "resourceClaimName": body["metadata"]["name"]}
    yield patch(f"{PODS}/{name}/status", {"status": {"resourceClaimStatuses": [known]}})


def gone(name: str) -> Iterator[Request]:
    """The end of a pod, and of what was allocated for it."""
    yield delete(PODS, name)
    yield patch(f"{CLAIMS}/{name}-{CLAIM}/status", FREED)


def from_template(
    inventory: Inventory,
    spec: Json,
    *,
    fill: Fill = empty,
    class_of: Json | None = None,
    turnover: int = AT_A_TIME,
    pods_per_node: float = 0,
) -> Scenario:
    """A claim per pod, and claims of the same kind that are there from the start."""
    allocated = Allocated(inventory, spec, fill)

    def backlog(number: int, size: Size) -> Iterator[Request]:
        yield measured(devices.with_claim(named(number), resourceClaimTemplateName=TEMPLATE))

    def before(size: Size) -> Iterator[Request]:
        yield create(CLASSES, class_of or devices.device_class())
        yield create(TEMPLATES, {"metadata": {"name": TEMPLATE}, "spec": {"spec": spec}})
        yield from allocated.claims(size)

    return Scenario(
        backlog,
        before=before,
        statuses=allocated.statuses,
        controller=partial(generated, spec),
        removal=gone,
        node=partial(node_with, inventory),
        turnover=turnover,
        pods_per_node=pods_per_node or len(inventory.results),
    )


# Shared claims: five pods have one, and there are two devices on a node. The first half of the pods
# is bound before the clock starts.


def sharing(number: int, size: Size) -> Iterator[Request]:
    shared = f"shared-{number // PODS_PER_SHARED_CLAIM:06d}"
    yield measured(devices.with_claim(named(number), resourceClaimName=shared))


def shared_claims(size: Size) -> Iterator[Request]:
    yield create(CLASSES, devices.device_class())
    for number in range(-(-size.pods // PODS_PER_SHARED_CLAIM)):
        yield create(CLAIMS, devices.claim(f"shared-{number:06d}", devices.exactly()))


SHARED = Scenario(
    sharing,
    before=shared_claims,
    node=partial(node_with, devices.cards(2)),
    warm_up=0.5,
    pods_per_node=2 * PODS_PER_SHARED_CLAIM,
    usual_pods=5000,
)


# Extended resources: no claim but the one that the scheduler makes. Classes take turns, by the name
# of a resource that they have, or by their own.


def extended(
    resources: list[str],
    classes: Iterable[Json],
    warm_up: float = 0.5,
    configuration: Mapping[str, object] | None = None,
) -> Scenario:
    made = list(classes)

    def backlog(number: int, size: Size) -> Iterator[Request]:
        resource = resources[number % len(resources)]
        yield measured(devices.with_extended_resource(named(number), resource))

    return Scenario(
        backlog,
        before=lambda size: (create(CLASSES, one) for one in made),
        node=partial(node_with, devices.cards(CARDS)),
        warm_up=warm_up,
        configuration=configuration or {},
        pods_per_node=CARDS,
        usual_pods=5000,
    )


def explicit(classes: int) -> Scenario:
    names = [f"{devices.EXTENDED_RESOURCE}-{number}" for number in range(classes)]
    return extended(
        names,
        (
            devices.device_class(f"gpu-{number}", extendedResourceName=name)
            for number, name in enumerate(names)
        ),
    )


def implicit(classes: int) -> Scenario:
    names = [f"gpu-{number}" for number in range(classes)]
    return extended(
        [f"{devices.IMPLICIT_RESOURCE}/{name}" for name in names],
        map(devices.device_class, names),
    )


def scored(classes: int) -> Scenario:
    """One resource that all classes have, and that nodes are scored by."""
    weights = [{"name": name, "weight": 1} for name in ("cpu", "memory", devices.EXTENDED_RESOURCE)]
    args = {"scoringStrategy": {"type": "LeastAllocated", "resources": weights}}
    plugin_config = [{"name": "NodeResourcesFit", "args": args}]
    return extended(
        [devices.EXTENDED_RESOURCE],
        (
            devices.device_class(f"gpu-{number}", extendedResourceName=devices.EXTENDED_RESOURCE)
            for number in range(classes)
        ),
        warm_up=0.0,
        configuration={"profiles": [{"pluginConfig": plugin_config}]},
    )


SCENARIOS: dict[str, Scenario] = {
    "claim-template": from_template(
        devices.cards(CARDS), devices.exactly(), fill=half, turnover=0, pods_per_node=CARDS / 2
    ),
    "claims-empty": from_template(devices.cards(CARDS), devices.exactly()),
    "claims-half": from_template(devices.cards(CARDS), devices.exactly(), fill=half),
    "claims-full": from_template(devices.cards(CARDS), devices.exactly(), fill=full),
    "claims-selector": from_template(
        devices.cards(CARDS),
        devices.exactly(selectors=[{"cel": {"expression": devices.SELECTOR}}]),
    ),
    "claims-match": from_template(
        devices.matched(CARDS), devices.matching(CARDS // devices.PCI_ROOTS)
    ),
    "shared-claims": SHARED,
    "extended-25": explicit(25),
    "extended-50": explicit(50),
    "extended-implicit": implicit(25),
    "extended-scoring": scored(20),
    "partitionable": from_template(devices.halves(), devices.exactly(2), fill=half),
    "backtracking": from_template(devices.one_too_large(), devices.exactly(7), fill=half),
    "consumable": from_template(
        devices.shareable(),
        devices.distinct_shares(),
        fill=half,
        class_of=devices.device_class(condition=devices.MULTIPLE),
    ),
    "gpus": from_template(devices.two_models(8), devices.exactly(), turnover=0),
}
