"""Extenders take part in scheduling: asked in turn, obeyed, ignored, and waited for."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.integration.cluster import pod
from tests.integration.extender import (
    fails,
    hangs,
    names,
    only,
    running_extender,
    victims,
)
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

pytestmark = pytest.mark.slow

BOUND_BY_US = "/binding"
# Victims without grace are gone as soon as they are told to go.
LOW = {"terminationGracePeriodSeconds": 0}
HIGH = {"priorityClassName": "system-cluster-critical"}


@pytest.fixture
async def extender():
    async with running_extender() as extender:
        yield extender


@pytest.fixture
async def second():
    async with running_extender() as extender:
        yield extender


@pytest.fixture(params=[False, True], ids=["whole nodes", "node names"])
def cache(request):
    return {"nodeCacheCapable": request.param}


def bindings(cluster):
    return [one.path for one in cluster.sent if one.path.endswith(BOUND_BY_US)]


class TestFilter:
    async def test_only_nodes_that_pass_are_used(self, cluster, extender, cache):
        cluster.create(*(node_manifest(f"n{number}") for number in range(4)))
        extender.answers["filter"] = only("n2")
        async with cluster.scheduler(extenders=[extender.config("filter", **cache)]):
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
        assert cluster.place("p1") == "n2"
        (question,) = extender.asked("filter")
        assert sorted(names(question)) == ["n0", "n1", "n2", "n3"]
        assert question["Pod"]["metadata"]["name"] == "p1"

    async def test_objects_are_passed_on_in_full(self, cluster, extender):
        made = node_manifest("n1", labels={"a": "b"})
        made["metadata"]["annotations"] = {"example.com/free": "7"}
        made["status"]["volumesInUse"] = ["kubernetes.io/csi/x"]
        cluster.create(made)
        wanted = pod("p1", hostname="unread-by-schedulers")
        async with cluster.scheduler(extenders=[extender.config("filter")]):
            cluster.create(wanted)
            await until(lambda: cluster.place("p1"))
        (question,) = extender.asked("filter")
        stored = cluster.api.objects.get("nodes", "n1")
        del stored["kind"], stored["apiVersion"]
        assert question["Nodes"] == {"metadata": {}, "items": [stored]}
        assert question["Pod"]["spec"]["hostname"] == "unread-by-schedulers"
        assert "kind" not in question["Pod"]
        assert "managedFields" not in question["Pod"]["metadata"]

    async def test_reasons_are_told_and_any_event_wakes_the_pod(self, cluster, extender, cache):
        cluster.create(node_manifest("n1"), node_manifest("n2"), node_manifest("full", cpu="0"))
        extender.answers["filter"] = only(n1="too loud", n2="too loud")
        async with cluster.scheduler(extenders=[extender.config("filter", **cache)]):
            cluster.create(pod("p1"))
            await until(lambda: cluster.complaint("p1"))
            assert cluster.complaint("p1").startswith(
                "0/3 nodes are available: 1 Insufficient cpu, 2 too loud. preemption: "
            )
            extender.answers["filter"] = only("n1", "n2", "n3")
            cluster.create(node_manifest("n3"))
            await until(lambda: cluster.place("p1"))

    async def test_one_that_does_not_fit_for_good_is_no_candidate_for_preemption(
        self, cluster, extender
    ):
        cluster.create(node_manifest("n1"), pod("there", nodeName="n1", **LOW))
        extender.answers["filter"] = lambda _: {
            "NodeNames": [],
            "FailedNodes": {"n1": "not yet"},
            "FailedAndUnresolvableNodes": {"n1": "never"},
        }
        config = extender.config("filter", nodeCacheCapable=True)
        async with cluster.scheduler(extenders=[config]):
            cluster.create(pod("p1", **HIGH))
            await until(lambda: cluster.complaint("p1"))
        assert cluster.complaint("p1") == (
            "0/1 nodes are available: 1 never. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )

    async def test_each_sees_what_those_before_left(self, cluster, extender, second):
        cluster.create(node_manifest("n1"), node_manifest("n2"), node_manifest("n3"))
        extender.answers["filter"] = only("n1", "n2")
        second.answers["filter"] = only("n2", "n3")
        extenders = [
            extender.config("filter", ignorable=True, nodeCacheCapable=True),
            second.config("filter", nodeCacheCapable=True),
        ]
        async with cluster.scheduler(extenders=extenders):
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
        assert cluster.place("p1") == "n2"
        # Those that may be ignored come last.
        assert len(names(second.asked("filter")[0])) == 3
        assert sorted(names(extender.asked("filter")[0])) == ["n2", "n3"]

    async def test_nobody_is_asked_about_pods_that_want_nothing_of_theirs(self, cluster, extender):
        cluster.create(node_manifest("n1"))
        resource = {"name": "example.com/gpu", "ignoredByScheduler": True}
        config = extender.config("filter", "bind", managedResources=[resource])
        async with cluster.scheduler(extenders=[config]):
            cluster.create(pod("plain"))
            await until(lambda: cluster.place("plain"))
            assert extender.calls == []
            wanting = pod("wanting")
            limits = {"example.com/gpu": "2"}
            wanting["spec"]["containers"][0]["resources"] |= {"limits": limits}
            cluster.create(wanting)
            await until(lambda: cluster.events("wanting"))
        assert [verb for verb, _ in extender.calls] == ["filter", "bind"]

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            pytest.param(fails(503), "failed filter with extender at URL {}/filter, code 503"),
            pytest.param(lambda _: {"Error": "am tired"}, "am tired"),
            pytest.param(lambda _: {"error": "so am I"}, "so am I"),
            pytest.param(lambda _: "oops", "invalid character 'o' looking for beginning of value"),
            pytest.param(
                lambda _: {"NodeNames": ["ghost"]},
                'extender "{}" claims a filtered node "ghost" which is not found in the input '
                "node list",
            ),
            pytest.param(
                lambda _: {"NodeNames": "n1"},
                "json: cannot unmarshal string into Go struct field "
                "ExtenderFilterResult.NodeNames of type []string",
            ),
            pytest.param(
                hangs,
                'Post "{}/filter": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)",
            ),
        ],
        ids=["status", "error", "lower case", "no JSON", "unknown node", "wrong type", "time-out"],
    )
    async def test_failures_are_told_and_tried_again(self, cluster, extender, answer, told):
        cluster.create(node_manifest("n1"))
        extender.answers["filter"] = answer
        seconds = 1 if answer is hangs else 60
        config = extender.config("filter", nodeCacheCapable=True, httpTimeout=f"{seconds}s")
        async with cluster.scheduler(extenders=[config]):
            cluster.create(pod("p1"))
            failure = ("FailedScheduling", told.replace("{}", extender.url))
            await until(lambda: failure in cluster.events("p1"))
            assert cluster.place("p1") is None
            del extender.answers["filter"]
            await until(lambda: cluster.place("p1"))

    async def test_failures_of_those_that_may_be_ignored_are(self, cluster, extender, log):
        cluster.create(node_manifest("n1"))
        extender.answers["filter"] = fails(500)
        async with cluster.scheduler(extenders=[extender.config("filter", ignorable=True)]):
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
        assert log.having("Skipping extender as it returned error and has ignorable flag set")


class TestPrioritize:
    async def test_scores_times_weights_add_to_the_total(self, cluster, extender, second, cache):
        cluster.create(node_manifest("n1"), node_manifest("n2"), node_manifest("n3"))
        extender.answers["prioritize"] = lambda _: [
            {"Host": "n1", "Score": 10},
            {"host": "n2", "score": 9},
            {"Host": "ghost", "Score": 10},
        ]
        second.answers["prioritize"] = lambda _: [{"Host": "n2", "Score": 2}]
        extenders = [
            extender.config("prioritize", weight=10, **cache),
            second.config("prioritize", weight=100, **cache),
        ]
        async with cluster.scheduler(extenders=extenders):
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
        assert cluster.place("p1") == "n2"

    async def test_whoever_fails_adds_nothing(self, cluster, extender, second):
        cluster.create(node_manifest("n1"), node_manifest("n2"))
        extender.answers["prioritize"] = hangs
        second.answers["prioritize"] = lambda _: [{"Host": "n2", "Score": 10}]
        extenders = [
            extender.config("prioritize", weight=1000, httpTimeout="200ms"),
            second.config("prioritize", weight=100),
        ]
        async with cluster.scheduler(extenders=extenders):
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
        assert cluster.place("p1") == "n2"
        assert cluster.complaint("p1") == ""

    async def test_nobody_is_asked_about_one_node(self, cluster, extender):
        cluster.create(node_manifest("n1"))
        async with cluster.scheduler(extenders=[extender.config("prioritize", weight=1)]):
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
        assert extender.calls == []


class TestPreempt:
    async def test_it_chooses_whom_to_evict(self, cluster, extender, cache):
        for name in ("n1", "n2"):
            cluster.create(
                node_manifest(name, cpu="2"), pod(f"on-{name}", cpu="2", nodeName=name, **LOW)
            )
        extender.answers["preempt"] = lambda question: {
            "nodenametometavictims": {"n2": victims(question)["n2"]}
        }
        config = extender.config("preempt", "filter", **cache)
        async with cluster.scheduler(extenders=[config]) as running:
            cluster.create(pod("vip", cpu="2", **HIGH))
            await until(lambda: cluster.place("vip"))
            log = running.daemon.scheduler.decisions
            kept = log.get("default", "vip").first.answers
        assert cluster.places() == {"on-n1": "n1", "vip": "n2"}
        # Of two candidates it left one; no node passed the filters.
        assert [(one.verb, one.asked, one.passed) for one in kept] == [("ProcessPreemption", 2, 1)]
        (question,) = extender.asked("preempt")
        assert victims(question).keys() == {"n1", "n2"}
        if not cache["nodeCacheCapable"]:
            told = question["NodeNameToVictims"]["n1"]["Pods"][0]
            assert told["metadata"]["name"] == "on-n1"
            assert told["spec"]["nodeName"] == "n1"
            assert told["spec"]["containers"][0]["image"] == "example.com/app:1"

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            pytest.param(
                lambda _: {"NodeNameToMetaVictims": {}},
                "no candidate node for preemption",
                id="none",
            ),
            pytest.param(
                lambda _: {"NodeNameToMetaVictims": {"n1": {"Pods": []}}},
                'expected at least one victim pod on node "n1"',
                id="no victims",
            ),
            pytest.param(
                lambda _: {"NodeNameToMetaVictims": {"n9": {"Pods": [{"UID": "x"}]}}},
                'nodeinfo not found for node name "n9"',
                id="unknown node",
            ),
            pytest.param(
                lambda _: {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "x"}]}}},
                "extender: {} claims to preempt pod (UID: &{x}) on node: n1, but the pod is not "
                "found on that node",
                id="unknown pod",
            ),
            pytest.param(
                fails(404), "failed preempt with extender at URL {}/preempt, code 404", id="status"
            ),
        ],
    )
    async def test_nobody_is_evicted_against_its_will(self, cluster, extender, answer, told):
        cluster.create(node_manifest("n1", cpu="2"), pod("there", cpu="2", nodeName="n1", **LOW))
        extender.answers["preempt"] = answer
        async with cluster.scheduler(extenders=[extender.config("preempt")]):
            cluster.create(pod("vip", cpu="2", **HIGH))
            await until(lambda: cluster.complaint("vip"))
        assert cluster.complaint("vip") == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: "
            + told.replace("{}", extender.url, 1)
        )
        assert cluster.place("there") == "n1"

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(fails(500), id="status"),
            pytest.param(hangs, id="time-out"),
        ],
    )
    async def test_failures_of_those_that_may_be_ignored_are(self, cluster, extender, answer):
        cluster.create(node_manifest("n1", cpu="2"), pod("there", cpu="2", nodeName="n1", **LOW))
        extender.answers["preempt"] = answer
        config = extender.config("preempt", ignorable=True, httpTimeout="200ms")
        async with cluster.scheduler(extenders=[config]):
            cluster.create(pod("vip", cpu="2", **HIGH))
            await until(lambda: cluster.place("vip"))
        assert cluster.places() == {"vip": "n1"}

    async def test_in_the_attempt_itself_where_nothing_is_done_aside(self, cluster, extender):
        cluster.create(node_manifest("n1", cpu="2"), pod("there", cpu="2", nodeName="n1", **LOW))
        flags = ["--feature-gates=SchedulerAsyncPreemption=false"]
        async with cluster.scheduler(args=flags, extenders=[extender.config("preempt")]):
            cluster.create(pod("vip", cpu="2", **HIGH))
            await until(lambda: cluster.place("vip"))
        assert len(extender.asked("preempt")) == 1


class TestBind:
    async def test_it_binds_instead_of_us(self, cluster, extender):
        cluster.create(node_manifest("n1"))

        def bind(question):
            cluster.api.objects.bind(question["PodName"], question["Node"])
            return {"Error": ""}

        extender.answers["bind"] = bind
        async with cluster.scheduler(extenders=[extender.config("bind")]):
            cluster.create(pod("p1"))
            await until(lambda: cluster.events("p1"))
        uid = cluster.pod("p1")["metadata"]["uid"]
        assert extender.asked("bind") == [
            {"PodName": "p1", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
        ]
        assert bindings(cluster) == []
        assert cluster.events("p1") == [("Scheduled", "Successfully assigned default/p1 to n1")]

    async def test_its_failures_are_told_and_tried_again(self, cluster, extender):
        cluster.create(node_manifest("n1", cpu="1"))
        extender.answers["bind"] = lambda _: {"Error": "cannot bind now"}
        async with cluster.scheduler(extenders=[extender.config("bind")]):
            cluster.create(pod("p1", cpu="1"))
            await until(lambda: cluster.complaint("p1") == "cannot bind now")
            extender.answers["bind"] = lambda question: (
                cluster.api.objects.bind(question["PodName"], question["Node"]) and {}
            )
            await until(lambda: cluster.place("p1"))

    async def test_who_may_be_ignored_leaves_it_to_us(self, cluster, extender):
        cluster.create(node_manifest("n1"))
        extender.answers["bind"] = hangs
        config = extender.config("bind", ignorable=True, httpTimeout="200ms")
        async with cluster.scheduler(extenders=[config]):
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
        assert len(bindings(cluster)) == 1

    async def test_a_binding_whose_answer_is_lost_is_found_out(self, cluster, extender):
        cluster.create(node_manifest("n1"))

        async def bind(question):
            cluster.api.objects.bind(question["PodName"], question["Node"])
            await hangs(question)

        extender.answers["bind"] = bind
        config = extender.config("bind", httpTimeout="2s")
        async with cluster.scheduler(extenders=[config]) as running:
            cluster.create(pod("p1"))
            await until(lambda: cluster.events("p1"))
            await until(lambda: not list(running.daemon.scheduler.queue.in_flight))
            assert len(extender.asked("bind")) == 1
            assert running.daemon.scheduler.cache.assumed_pod_count == 0

    @pytest.mark.parametrize("ignorable", [False, True])
    async def test_room_of_a_binding_that_comes_late_is_not_given_away(
        self, cluster, extender, ignorable
    ):
        """It takes longer than the scheduler waits for it, and binds the pod after all."""
        cluster.create(node_manifest("n1", cpu="1"))
        late = asyncio.Event()

        async def bind(question):
            await late.wait()
            if not cluster.place(question["PodName"]):
                cluster.api.objects.bind(question["PodName"], question["Node"])
            return {"Error": ""}

        extender.answers["bind"] = bind
        config = extender.config("bind", httpTimeout="200ms", ignorable=ignorable)
        async with cluster.scheduler(extenders=[config]):
            cluster.create(pod("first", cpu="1"), pod("second", cpu="1"))
            await until(lambda: "Insufficient cpu" in cluster.complaint("second"))
            if not ignorable:
                await until(lambda: "Client.Timeout exceeded" in cluster.complaint("first"))
            late.set()
            await until(lambda: "Scheduled" in [why for why, _ in cluster.events("first")])
        assert cluster.places() == {"first": "n1", "second": None}


@asynccontextmanager
async def watching(cluster, resource):
    """What anybody who watches is told."""
    url = f"{cluster.api.url}/api/v1/{resource}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, params={"watch": "true"}) as answer,
    ):
        yield answer.content


class TestWaiting:
    async def test_what_happens_meanwhile_is_seen_afterwards(self, cluster, extender):
        cluster.create(node_manifest("n1"), node_manifest("n2"))
        answered = asyncio.Event()

        async def answer(question):
            await answered.wait()
            return only(*names(question))(question)

        extender.answers["filter"] = answer
        config = extender.config("filter", nodeCacheCapable=True, httpTimeout="30s")
        async with cluster.scheduler(extenders=[config]) as running:
            informers = running.daemon.scheduler.informers
            cluster.create(pod("p1"))
            await until(lambda: extender.calls)
            async with watching(cluster, "pods") as news:
                for number in range(2000):
                    cluster.create(node_manifest(f"late-{number}"))
                cluster.create(pod("p2"))
                while b'"p2"' not in await asyncio.wait_for(news.readline(), 60):
                    pass  # Until others have heard of it.
            assert (len(informers.nodes), len(informers.pods)) == (2, 1)
            answered.set()
            await until(lambda: cluster.place("p1") and cluster.place("p2"))
            await until(lambda: len(informers.nodes) == 2002)
        assert cluster.place("p1") in ("n1", "n2")
        assert len(names(extender.asked("filter")[1])) > 2

    async def test_leadership_goes_on(self, cluster, extender):
        cluster.create(node_manifest("n1"))

        def renewals():
            return sum(one.method == "PUT" and "leases" in one.path for one in cluster.sent)

        async def answer(question):
            enough = renewals() + 5
            await until(lambda: renewals() >= enough)
            return only(*names(question))(question)

        extender.answers["filter"] = answer
        lease = {"leaseDuration": "60s", "renewDeadline": "30s", "retryPeriod": "200ms"}
        config = extender.config("filter", nodeCacheCapable=True, httpTimeout="90s")
        async with cluster.scheduler(extenders=[config], leaderElection=lease) as running:
            cluster.create(pod("p1"))
            await until(lambda: cluster.place("p1"))
            assert running.daemon.elector.is_leader
        assert len(extender.asked("filter")) == 1

    async def test_connections_are_kept(self, cluster, extender):
        cluster.create(node_manifest("n1"), node_manifest("n2"))
        async with cluster.scheduler(extenders=[extender.config("filter", "prioritize", weight=1)]):
            for number in range(5):
                cluster.create(pod(f"p{number}"))
            await until(lambda: not cluster.waiting())
        assert len(extender.calls) == 10
        assert len(extender.connections) == 1
