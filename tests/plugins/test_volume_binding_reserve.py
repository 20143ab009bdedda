"""What is decided is assumed at once, written before binding, and waited for."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from kscheduler.api.core import ObjectReference
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PreFlight
from kscheduler.framework.status import Code, Status
from kscheduler.plugins.volume_binding import binder
from tests.plugins.machines import make_node, rejected
from tests.plugins.volumes import (
    BOUND,
    SELECTED_NODE,
    Stage,
    in_version,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
    reachable_from,
    using,
)

BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
A = make_node("a", labels={"zone": "a"})
LOCAL = make_class("wait", "kubernetes.io/no-provisioner")
PROVIDED = make_class("wait")
REFERENCE = ObjectReference(
    kind="PersistentVolumeClaim",
    api_version="v1",
    namespace="default",
    name="c",
    uid="uid-c",
    resource_version="1",
)


def volume_of(stage, name="pv"):
    """As later attempts see it."""
    return stage.plugin._volumes.get(name)


def claim_of(stage, name="c"):
    return stage.plugin._claims.get(f"default/{name}")


@pytest.mark.parametrize(
    ("volume", "reference", "annotations"),
    [
        pytest.param(make_volume(), REFERENCE, {BY_CONTROLLER: "yes"}, id="free"),
        pytest.param(make_volume(kept_for="c"), REFERENCE, {}, id="kept for its name"),
        pytest.param(
            make_volume(annotations={BY_CONTROLLER: "no"}),
            REFERENCE,
            {BY_CONTROLLER: "no"},
            id="marked before",
        ),
    ],
)
def test_a_volume_is_assumed_to_be_the_claims(volume, reference, annotations):
    stage = Stage([A], make_claim(), LOCAL, volume)
    _, status = stage.reserve(using("c"), "a")
    assert status is None
    assumed = volume_of(stage)
    assert (assumed.spec.claim_ref, assumed.metadata.annotations) == (reference, annotations)


def test_a_volume_that_says_it_all_already_need_not_be_assumed():
    volume = make_volume(kept_for="c/uid-c")
    stage = Stage([A], make_claim(), LOCAL, volume)
    cycle, _ = stage.reserve(using("c"), "a")
    assert volume_of(stage) is volume
    assert stage.plugin.pre_bind_pre_flight(cycle, using("c"), "a").has_work


def test_a_claim_is_assumed_to_have_its_node():
    stage = Stage([A], make_claim(), PROVIDED)
    assert stage.reserve(using("c"), "a")[1] is None
    assert claim_of(stage).metadata.annotations == {SELECTED_NODE: "a"}


def test_an_assumed_volume_is_not_given_twice():
    stage = Stage([A], make_claim(), make_claim("d"), LOCAL, make_volume())
    cycle, _ = stage.reserve(using("c"), "a")
    refusal = {"a": ("UnschedulableAndUnresolvable", NO_VOLUME)}
    assert rejected(stage.plugin, using("d", name="q"), stage.nodes) == refusal
    assert rejected(stage.plugin, using("c", name="r"), stage.nodes) == {}
    stage.plugin.unreserve(cycle, using("c"), "a")
    assert rejected(stage.plugin, using("d", name="q"), stage.nodes) == {}


def test_what_is_unreserved_is_as_before_however_often():
    volume, claim = make_volume(), make_claim("d", "90Gi")
    stage = Stage([A], make_claim(), claim, PROVIDED, volume)
    pod = using("c", "d")
    cycle, _ = stage.reserve(pod, "a")
    assert claim_of(stage, "d") is not claim
    for _ in range(2):
        stage.plugin.unreserve(cycle, pod, "a")
        assert (volume_of(stage), claim_of(stage, "d")) == (volume, claim)


def test_nothing_is_assumed_when_one_thing_cannot_be():
    volume = make_volume()
    stage = Stage([A], make_claim(), make_claim("d", "90Gi"), PROVIDED, volume)
    pod = using("c", "d")
    cycle = stage.prepared(pod)
    list(stage.plugin.filter(cycle, pod, stage.nodes))
    stage.informers.put(make_claim("d", "90Gi", version="2"))
    status = stage.plugin.reserve(cycle, pod, "a")
    assert status.message == '"default/d" is out of sync (stored: 2, assume: 1)'
    assert status.code is Code.ERROR
    assert volume_of(stage) is volume
    assert stage.metrics.volume_scheduling_stage_error_total.labels("assume").value == 1


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([make_claim(bound_to="pv"), make_volume()], False, id="all bound"),
        pytest.param([make_claim(), make_volume(), LOCAL], True, id="a volume to bind"),
        pytest.param([make_claim(), PROVIDED], True, id="a volume to be made"),
    ],
)
def test_work_before_binding(objects, want):
    stage = Stage([A], *objects)
    cycle, _ = stage.reserve(using("c"), "a")
    answer = stage.plugin.pre_bind_pre_flight(cycle, using("c"), "a")
    assert answer == PreFlight(allow_parallel=True, has_work=want)


async def test_a_pod_without_claims_has_nothing_to_do():
    stage, pod, cycle = Stage([A]), using(), CycleState()
    stage.plugin.pre_filter(cycle, pod, stage.nodes)
    assert stage.plugin.reserve(cycle, pod, "a") is None
    assert not stage.plugin.pre_bind_pre_flight(cycle, pod, "a").has_work
    assert await stage.plugin.pre_bind(cycle, pod, "a") is None
    stage.plugin.unreserve(cycle, pod, "a")


def test_without_pre_filter_nothing_can_be_reserved():
    status = Stage([A]).plugin.reserve(CycleState(), using(), "a")
    assert status == Status(Code.ERROR, ("not found",))


@pytest.mark.parametrize("of_class", [pytest.param(LOCAL, id="volume"), PROVIDED])
def test_without_filter_nothing_is_reserved(of_class):
    stage = Stage([A], make_claim(), of_class, make_volume())
    pod = using("c")
    cycle = stage.prepared(pod)
    assert stage.plugin.reserve(cycle, pod, "a") is None
    assert not stage.plugin.pre_bind_pre_flight(cycle, pod, "a").has_work
    assert (volume_of(stage).spec.claim_ref, claim_of(stage).metadata.annotations) == (None, {})


@asynccontextmanager
async def binding(stage, pod, monkeypatch, node="a", look_seconds=0.001):
    """Reserved and written; inside, the test plays the volume controller."""
    monkeypatch.setattr(binder, "LOOK_SECONDS", look_seconds)
    cycle, status = stage.reserve(pod, node)
    assert status is None
    attempt = asyncio.create_task(stage.plugin.pre_bind(cycle, pod, node))
    try:
        async with asyncio.timeout(20):
            await asyncio.sleep(0)
            yield attempt
    finally:
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)


async def goes_on(attempt):
    done, _ = await asyncio.wait([attempt], timeout=0.02)
    return not done


@pytest.fixture
def static():
    return Stage([A], make_claim(), LOCAL, make_volume(nodeAffinity=reachable_from(zone="a")))


@pytest.fixture
def dynamic():
    return Stage([A], make_claim(), PROVIDED)


async def test_a_volume_is_written_and_the_claim_waited_for(static, monkeypatch):
    async with binding(static, using("c"), monkeypatch) as attempt:
        (written,) = static.writes.made
        assert written.spec.claim_ref == REFERENCE
        static.informers.put(written)
        assert await goes_on(attempt)
        static.informers.put(make_claim(version="2", bound_to="pv"))
        assert await attempt is None


async def test_a_claim_is_written_and_its_volume_waited_for(dynamic, monkeypatch):
    async with binding(dynamic, using("c"), monkeypatch) as attempt:
        (written,) = dynamic.writes.made
        assert written.metadata.annotations == {SELECTED_NODE: "a"}
        dynamic.informers.put(written)
        bound = make_claim(version="3", bound_to="pv", annotations={SELECTED_NODE: "a"})
        dynamic.informers.put(bound)
        assert await goes_on(attempt), "the volume has not been heard of"
        dynamic.informers.put(make_volume(nodeAffinity=reachable_from(zone="a")))
        assert await attempt is None


@pytest.mark.parametrize("volume_first", [True, False])
async def test_what_is_waited_for_is_looked_at_when_a_watch_tells_of_it(
    static, dynamic, monkeypatch, volume_first
):
    async with binding(static, using("c"), monkeypatch, look_seconds=1000) as attempt:
        static.informers.put(static.writes.made[0])
        static.informers.put(make_claim(version="2", bound_to="pv"))
        assert await attempt is None
    bound = make_claim(version="3", bound_to="pv", annotations={SELECTED_NODE: "a"})
    news = [bound, make_volume(nodeAffinity=reachable_from(zone="a"))]
    async with binding(dynamic, using("c"), monkeypatch, look_seconds=1000) as attempt:
        for one in reversed(news) if volume_first else news:
            assert await goes_on(attempt)
            dynamic.informers.put(one)
        assert await attempt is None


async def test_a_pod_is_looked_at_less_and_less_often_however_much_news_there_is(
    dynamic, monkeypatch
):
    """Looking once per news at a pod with thousands of claims would cost the square of them."""
    looks, look = [], binder.VolumeBinder._check_bindings

    def counted(self, *args):
        looks.append(args)
        return look(self, *args)

    monkeypatch.setattr(binder.VolumeBinder, "_check_bindings", counted)
    async with binding(dynamic, using("c"), monkeypatch, look_seconds=1000) as attempt:
        for version in range(2, 302):
            annotations = {SELECTED_NODE: "a"}
            dynamic.informers.put(make_claim(version=str(version), annotations=annotations))
            await asyncio.sleep(0.001)
        assert await goes_on(attempt)
    assert 2 <= len(looks) <= 12  # after 5, 10, 20, 40 ms and so on


async def test_a_wait_that_is_given_up_is_forgotten(static, monkeypatch):
    claims = static.plugin._claims.awaited
    async with binding(static, using("c"), monkeypatch, look_seconds=1000) as attempt:
        assert await goes_on(attempt)
        assert list(claims._waiting) == ["default/c"]
        attempt.cancel()
        await asyncio.wait([attempt])
        assert not claims._waiting


async def test_volumes_are_written_before_claims(monkeypatch):
    stage = Stage([A], make_claim(), make_claim("b", "90Gi"), PROVIDED, make_volume())
    async with binding(stage, using("b", "c"), monkeypatch):
        assert [one.key for one in stage.writes.made] == ["pv", "default/b"]


async def test_a_write_that_fails_ends_the_attempt(monkeypatch):
    volume, claim = make_volume(), make_claim("b", "90Gi")
    stage = Stage([A], make_claim(), claim, PROVIDED, volume)
    pod = using("b", "c")
    stage.writes.failing["default/b"] = KschedulerError("no")
    cycle, _ = stage.reserve(pod, "a")
    assert await stage.plugin.pre_bind(cycle, pod, "a") == Status(Code.ERROR, ("no",))
    assert stage.metrics.volume_scheduling_stage_error_total.labels("bind").value == 1
    stage.plugin.unreserve(cycle, pod, "a")
    assert claim_of(stage, "b") is claim
    # It was written, and will be told: nobody else shall have it meanwhile.
    assert volume_of(stage).spec.claim_ref.name == "c"
    stage.informers.put(stage.writes.made[0])
    assert volume_of(stage) is stage.writes.made[0]


async def test_binding_takes_only_so_long(monkeypatch):
    monkeypatch.setattr(binder, "LOOK_SECONDS", 0.001)
    stage = Stage([A], make_claim(), PROVIDED, timeout=3)
    cycle, _ = stage.reserve(using("c"), "a")
    attempt = asyncio.create_task(stage.plugin.pre_bind(cycle, using("c"), "a"))
    assert await goes_on(attempt)
    stage.now = 3.0
    status = await asyncio.wait_for(attempt, 20)
    assert status == Status(Code.ERROR, ("binding volumes: context deadline exceeded",))


MIGRATED = make_csi_node("a", "kubernetes.io/aws-ebs")
BAD_EBS = {"awsElasticBlockStore": {"volumeID": "aws://z/x"}}
WRITTEN = make_volume(version="2", kept_for="c/uid-c", nodeAffinity=reachable_from(zone="a"))
MOVED = replace(A, metadata=replace(A.metadata, resource_version="2", labels={"zone": "b"}))
UNTRANSLATABLE = (
    "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID "
    "Invalid format for AWS volume (aws://z/x)"
)


@pytest.mark.parametrize(
    ("news", "problem"),
    [
        pytest.param(
            lambda world: world.remove(A),
            'failed to get node "a": node "a" not found',
            id="node gone",
        ),
        pytest.param(
            lambda world: world.remove(using("c").pod),
            'pod does not exist any more: pod "p" not found',
            id="pod gone",
        ),
        pytest.param(
            lambda world: world.remove(make_volume()),
            'failed to check binding: persistentvolumes "pv" not found',
            id="volume gone",
        ),
        pytest.param(
            lambda world: world.remove(make_claim()),
            'failed to check binding: persistentvolumeclaims "default/c" not found',
            id="claim gone",
        ),
        pytest.param(
            lambda world: world.put(make_volume(version="3")),
            'ClaimRef got reset for pv "pv"',
            id="reference dropped",
        ),
        pytest.param(
            lambda world: world.put(make_volume(version="3", kept_for="c")),
            'ClaimRef got reset for pv "pv"',
            id="reference without uid",
        ),
        pytest.param(
            lambda world: (world.put(WRITTEN), world.put(MOVED)),
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="node moved away",
        ),
        pytest.param(
            lambda world: (
                world.put(MIGRATED),
                world.put(make_volume(version="3", kept_for="c/uid-c", **BAD_EBS)),
            ),
            f"failed to translate pv to csi: {UNTRANSLATABLE}",
            id="cannot be migrated",
        ),
    ],
)
async def test_a_volume_may_get_lost_while_it_is_waited_for(static, news, problem, monkeypatch):
    async with binding(static, using("c"), monkeypatch) as attempt:
        news(static.informers)
        assert await attempt == Status(Code.ERROR, (f"binding volumes: {problem}",))


SELECTED = {SELECTED_NODE: "a"}


@pytest.mark.parametrize(
    ("news", "problem"),
    [
        pytest.param(
            [make_claim(version="3")],
            'selectedNode annotation reset for PVC "c"',
            id="all annotations gone",
        ),
        pytest.param(
            [make_claim(version="3", annotations={"x": "y"})],
            'provisioning failed for PVC "c"',
            id="node given up",
        ),
        pytest.param(
            [make_claim(version="3", annotations={SELECTED_NODE: "b"})],
            'provisioning failed for PVC "c"',
            id="moved to another node",
        ),
        pytest.param(
            [
                make_volume(nodeAffinity=reachable_from(zone="b")),
                make_claim(version="3", bound_to="pv", annotations=SELECTED),
            ],
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="made elsewhere",
        ),
        pytest.param(
            [
                MIGRATED,
                make_volume(**BAD_EBS),
                make_claim(version="3", bound_to="pv", annotations=SELECTED),
            ],
            UNTRANSLATABLE,
            id="cannot be migrated",
        ),
    ],
)
async def test_provisioning_may_fail(dynamic, news, problem, monkeypatch):
    async with binding(dynamic, using("c"), monkeypatch) as attempt:
        for item in news:
            dynamic.informers.put(item)
        assert await attempt == Status(Code.ERROR, (f"binding volumes: {problem}",))


async def test_a_claim_that_is_gone_is_not_waited_for(dynamic, monkeypatch):
    async with binding(dynamic, using("c"), monkeypatch) as attempt:
        dynamic.informers.remove(make_claim())
        missing = 'persistentvolumeclaims "default/c" not found'
        text = f"binding volumes: failed to check provisioning pvc: {missing}"
        assert await attempt == Status(Code.ERROR, (text,))


async def test_older_news_than_our_own_write_count_for_nothing(dynamic, monkeypatch):
    async with binding(dynamic, using("c"), monkeypatch) as attempt:
        # Its annotation is missing, but this is how it was before.
        assert await goes_on(attempt)
        annotations = {**BOUND, **SELECTED}
        dynamic.informers.put(make_volume())
        dynamic.informers.put(in_version(make_claim(bound_to="pv"), 3, annotations=annotations))
        assert await attempt is None
