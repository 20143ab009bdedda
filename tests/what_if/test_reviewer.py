import asyncio
from itertools import pairwise
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from kscheduler.api.explanation import (
    AttemptRecord,
    BudgetLeft,
    PlacementReview,
    PlacementReviewSpec,
    Victim,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.scheduling import PriorityClass
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.slices import Slices
from kscheduler.state.pod_info import PodInfo
from kscheduler.what_if import Reviewer, ReviewError, ReviewLimitError
from tests.kit.clusters import FixedNominator
from tests.kit.manifests import near, node_manifest, pod_manifest, required
from tests.kit.objects import make_node, make_pod
from tests.what_if.conftest import nodes_of, raw


def node(name, cpu="4", **fields):
    room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, **fields.pop("labels", {})}
    return make_node(name, allocatable=room, labels=labels, **fields)


class TestPredictions:
    @pytest.mark.parametrize("seed", range(25))
    async def test_equal_what_the_algorithm_then_does(self, world, seed):
        random = Random(seed)
        # Rooms so odd that no two nodes have the same score often.
        nodes = [
            node(f"n{i}", f"{random.randrange(1500, 9000)}m", labels={"zone": f"z{i % 3}"})
            for i in range(random.randrange(1, 9))
        ]
        pods = [
            make_pod(
                f"old{i}",
                node=random.choice(nodes).name,
                requests={"cpu": f"{random.randrange(50, 700)}m", "memory": "100Mi"},
                labels={"app": "a"},
            )
            for i in range(random.randrange(12))
        ]
        cluster = world(nodes, pods)
        manifests = [
            pod_manifest(
                f"new{i}",
                cpu=f"{random.randrange(50, 2500)}m",
                labels={"app": random.choice("ab")},
                nodeSelector={"zone": f"z{random.randrange(3)}"} if random.random() < 0.3 else {},
            )
            for i in range(12)
        ]
        status = await cluster.review(*manifests)
        for manifest, placement in zip(manifests, status.placements, strict=True):
            if "equal nodes" in placement.message:
                break
            spec = manifest["spec"]
            pod = make_pod(
                placement.name,
                labels=manifest["metadata"]["labels"],
                requests=spec["containers"][0]["resources"]["requests"],
                nodeSelector=spec["nodeSelector"],
            )
            assert cluster.decide(pod) == placement.node

    async def test_a_tie_is_told(self, world):
        status = await world([node("a"), node("b")]).review(pod_manifest(cpu="1"))
        assert status.placements[0].message == "one of 2 equal nodes"
        assert sorted(status.placements[0].ties) == ["a", "b"]

    async def test_replicas_are_numbered_and_see_each_other(self, world):
        status = await world([node("a", "2"), node("b", "1")]).review(
            pod_manifest("web", cpu="1"), replicas=4
        )
        assert [one.name for one in status.placements] == ["web-0", "web-1", "web-2", "web-3"]
        assert sorted(nodes_of(status)) == ["", "a", "a", "b"]
        assert (status.fits, status.placed, status.total) == (False, 3, 4)
        assert status.summary == (
            "3 of 4 fit; the other does not: 2 nodes lack cpu (least short by 1 on a)."
        )

    async def test_all_fit(self, world):
        status = await world([node("a")]).review(pod_manifest(cpu="1"), replicas=3)
        assert (status.summary, status.fits) == ("All 3 fit, on 1 node.", True)

    async def test_of_very_many_reasons_the_sentence_has_the_first(self, world):
        many = {f"example.com/r{number}": "1" for number in range(2000)}
        container = {"name": "c", "resources": {"requests": many}}
        status = await world([node("a")]).review(pod_manifest(containers=[container]))
        assert status.summary.startswith("It does not fit: 1 node lacks example.com/r0, 1 lacks ")
        assert status.summary.endswith(", 1,992 more reasons.")

    async def test_a_pod_that_would_take_long_to_decide_is_refused(self, world):
        terms = [near({"app": f"web-{number}"}, "zone") for number in range(1000)]
        hostile = pod_manifest(pod_anti_affinity=required(terms))
        with pytest.raises(ReviewLimitError, match=r"spec\.pods\[0\]\.spec: .* 65,536 bytes of a"):
            await world([node("a")]).review(hostile)

    async def test_pods_without_a_name_get_one_each(self, world):
        manifest = pod_manifest("")
        status = await world([node("a")]).review(manifest, manifest)
        assert [one.name for one in status.placements] == ["pod", "pod-0"]

    async def test_limits_stand_in_for_requests(self, world):
        container = {"name": "c", "resources": {"limits": {"cpu": "5"}}}
        status = await world([node("a")]).review(pod_manifest(containers=[container]))
        assert status.summary == "It does not fit: 1 node lacks cpu (least short by 1 on a)."

    async def test_an_unknown_scheduler_is_told(self, world):
        status = await world([node("a")]).review(pod_manifest(schedulerName="other"))
        assert status.fits
        assert (
            status.message == 'No profile is called "other"; "default-scheduler" decided instead.'
        )

    async def test_a_pod_waits_for_one_that_comes_after_it(self, world):
        """As in the scheduler's queue, from which a pod is woken that has affinity to another."""
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
        near = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        cluster = world([node("a", labels={"zone": "z"}), node("b", "8")])
        status = await cluster.review(
            pod_manifest("web", pod_affinity=near),
            pod_manifest("other", cpu="1"),
            pod_manifest("db", labels={"app": "db"}, nodeSelector={"zone": "z"}),
        )
        assert [(one.name, one.node) for one in status.placements] == [
            ("web", "a"),
            ("other", "b"),
            ("db", "a"),
        ]
        assert status.placements[0].message == "once the others were placed"
        assert (status.fits, status.remedies, status.message) == (True, (), "")

    async def test_priority_classes_are_asked_for(self, world):
        cluster = world([node("a")], [make_pod("there", node="a", requests={"cpu": "3"})])

        async def classes():
            return [PriorityClass(ObjectMeta(name="high"), value=100)]

        live = replace(cluster.live, priority_classes=classes)
        pod = pod_manifest("new", cpu="3", priorityClassName="high")
        status = await cluster.review(pod, allow_preemption=True, reviewer=Reviewer(live))
        assert [one.name for one in status.placements[0].victims] == ["there"]

    async def test_another_configuration_decides(self, world):
        cluster = world([node("a"), node("b")], [make_pod("p", node="b", requests={"cpu": "2"})])
        packing = {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 100}],
                }
            },
        }
        profile = {
            "pluginConfig": [packing],
            "plugins": {
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}
            },
        }
        text = msgspec.json.encode(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [profile],
            }
        ).decode()
        pod = pod_manifest(cpu="1")
        assert nodes_of(await cluster.review(pod)) == ["a"]
        assert nodes_of(await cluster.review(pod, configuration=text)) == ["b"]

    async def test_details_are_explained_on_demand(self, world):
        cluster = world([node("a")])
        reviewer = Reviewer(
            cluster.live, explain=lambda attempt, outcome, view: AttemptRecord(node=outcome.node)
        )
        full = await cluster.review(pod_manifest(), reviewer=reviewer, detail="All")
        short = await cluster.review(pod_manifest(), reviewer=reviewer)
        assert full.placements[0].explanation == AttemptRecord(node="a")
        assert short.placements[0].explanation is None


class TestChangedNodes:
    async def test_a_node_like_another_is_added_empty(self, world):
        cluster = world([node("a")], [make_pod("p", node="a", requests={"cpu": "3"})])
        pod = pod_manifest(cpu="2")
        assert not (await cluster.review(pod)).fits
        status = await cluster.review(pod, add_nodes=[{"like": "a", "count": 2}], replicas=4)
        assert sorted(nodes_of(status)) == ["a-new-0", "a-new-0", "a-new-1", "a-new-1"]

    async def test_a_node_is_added_from_a_manifest(self, world):
        added = {"node": raw(node_manifest("big", cpu="64"))}
        status = await world([node("a")]).review(pod_manifest(cpu="60"), add_nodes=[added])
        assert nodes_of(status) == ["big"]

    async def test_a_removed_node_takes_no_pod(self, world):
        cluster = world([node("a", "8"), node("b")], [make_pod("p", node="a")])
        status = await cluster.review(pod_manifest(cpu="1"), remove_nodes=("a",))
        assert nodes_of(status) == ["b"]
        assert status.message.startswith("1 pod of removed nodes is not placed anew;")

    async def test_a_cordoned_node_takes_no_pod(self, world):
        status = await world([node("a")]).review(pod_manifest(), cordon_nodes=("a",))
        assert status.summary == "It does not fit: 1 node is cordoned."
        assert [(one.change, one.more_nodes) for one in status.remedies] == [
            ("with cordoned nodes uncordoned", 1)
        ]

    async def test_pods_of_a_drained_node_move_before_others_are_placed(self, world):
        daemon = make_pod("d", node="a", owner={"kind": "DaemonSet", "name": "d"})
        mirror = make_pod("m", node="a", annotations={"kubernetes.io/config.mirror": "x"})
        web = make_pod("w", node="a", requests={"cpu": "3"}, owner={"kind": "ReplicaSet"})
        cluster = world([node("a"), node("b")], [daemon, mirror, web])
        status = await cluster.review(pod_manifest("new", cpu="2"), drain_nodes=("a",))
        assert [(one.name, one.node) for one in status.placements] == [("w", "b"), ("new", "")]
        assert status.placements[0].message == "drained from a"

    @pytest.mark.parametrize(
        ("count", "note"),
        [
            (1, "1 pod of drained nodes does not belong to a controller, which would create it"),
            (2, "2 pods of drained nodes do not belong to a controller, which would create them"),
        ],
    )
    async def test_pods_that_nobody_creates_again_are_counted(self, world, count, note):
        alone = [make_pod(f"p{i}", node="a") for i in range(count)]
        status = await world([node("a"), node("b")], alone).review(drain_nodes=("a",))
        assert status.message == f"{note} again."


class TestPreemption:
    async def test_victims_are_told_and_placed_again(self, world):
        budget = msgspec.convert(
            {
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "low"}}},
                "status": {"disruptionsAllowed": 0},
            },
            PodDisruptionBudget,
        )
        low = make_pod("low", node="a", requests={"cpu": "3"}, priority=-5, labels={"app": "low"})
        big = make_pod("big", node="b", requests={"cpu": "1"}, priority=50)
        cluster = world([node("a"), node("b")], [low, big], [budget])
        pod = pod_manifest("new", cpu="4", priority=10)
        assert not (await cluster.review(pod)).fits
        status = await cluster.review(pod, allow_preemption=True)
        assert [(one.name, one.node) for one in status.placements] == [("new", "a"), ("low", "b")]
        victim = Victim("default", "low", -5, True, budgets=("b",), next_node="b")
        assert status.placements[0].victims == (victim,)
        assert status.budgets == (BudgetLeft("default", "b", 0, -1),)
        assert "1 disruption budget would be exceeded." in status.message
        assert status.placements[1].message == "evicted from a for default/new"
        assert status.summary == "It fits, on 1 node, if 1 pod is evicted."

    async def test_room_nominated_for_the_pod_asked_about_is_not_taken_from_it(self, world):
        """Other pods leave it that room."""
        cluster = world([node("a")])
        waiting = make_pod("p", requests={"cpu": "4"}, priority=10)
        nominator = FixedNominator({"a": [PodInfo(waiting)]})
        cluster.live = msgspec.structs.replace(cluster.live, nominator=nominator)
        asked, other = (pod_manifest(name, cpu="4", priority=10) for name in ("p", "other"))
        assert (await cluster.review(asked)).fits
        assert not (await cluster.review(other)).fits

    async def test_victims_that_all_fit_nowhere_else_are_told_in_one_word(self, world):
        there = [make_pod(f"low-{n}", node=n, requests={"cpu": "3"}) for n in "ab"]
        pod = pod_manifest("new", cpu="4", priority=10)
        status = await world([node("a"), node("b")], there).review(
            pod, replicas=2, allow_preemption=True
        )
        assert status.summary == (
            "Both fit, on 2 nodes, if 2 pods are evicted, none of which fits anywhere else."
        )

    async def test_a_pod_of_the_review_may_be_evicted_for_a_later_one(self, world):
        cluster = world([node("a")])
        pods = [pod_manifest("low", cpu="3", priority=1), pod_manifest("high", cpu="3", priority=9)]
        status = await cluster.review(*pods, allow_preemption=True)
        assert [(one.name, one.node) for one in status.placements] == [
            ("low", "a"),
            ("high", "a"),
            ("low", ""),
        ]
        assert (status.fits, status.placed, status.total) == (False, 1, 2)
        assert status.placements[1].victims == (Victim("default", "low", 1),)

    async def test_a_pod_that_may_not_preempt_stays_without_a_node(self, world):
        cluster = world([node("a")], [make_pod("low", node="a", requests={"cpu": "3"})])
        pod = pod_manifest(cpu="4", priority=10, preemptionPolicy="Never")
        assert not (await cluster.review(pod, allow_preemption=True)).fits


class TestRefusals:
    @pytest.mark.parametrize(
        ("pod", "fields", "text"),
        [
            ({}, {"drain_nodes": ("n9",)}, 'spec.drainNodes[0]: Not found: "n9"'),
            ({}, {"cordon_nodes": ("a", "x")}, 'spec.cordonNodes[1]: Not found: "x"'),
            ({}, {"remove_nodes": ("x",)}, 'spec.removeNodes[0]: Not found: "x"'),
            ({}, {"add_nodes": [{"like": "x"}]}, 'spec.addNodes[0].like: Not found: "x"'),
            ({}, {"replicas": 0}, "spec.replicas: Invalid value: 0: must be at least 1"),
            (
                {},
                {"detail": "Much"},
                'spec.detail: Unsupported value: "Much": supported values: '
                '"Summary", "Candidates", "All"',
            ),
            (
                {"cpu": "x"},
                {},
                "spec.pods[0].spec.containers[0].resources.requests[cpu]: Invalid value: "
                '"x": quantities must match the regular expression \'^([+-]?[0-9.]+)'
                "([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            ({"containers": []}, {}, "spec.pods[0].spec.containers: Required value"),
            (
                {"cpu": "-1"},
                {},
                "spec.pods[0].spec.containers[0].resources.requests[cpu]: Invalid value: "
                '"-1": must be greater than or equal to 0',
            ),
            (
                {"overhead": {"cpu": "-1"}},
                {},
                'spec.pods[0].spec.overhead[cpu]: Invalid value: "-1": '
                "must be greater than or equal to 0",
            ),
            (
                {"resources": {"limits": {"cpu": "-1"}}},
                {},
                'spec.pods[0].spec.resources.limits[cpu]: Invalid value: "-1": '
                "must be greater than or equal to 0",
            ),
        ],
    )
    async def test_names_the_field(self, world, pod, fields, text):
        with pytest.raises(ReviewError) as refusal:
            await world([node("a")]).review(pod_manifest(**pod), **fields)
        assert str(refusal.value) == text

    @pytest.mark.parametrize("name", ["?watch=true", "../../../api/v1/nodes/a", "..", "A"])
    async def test_a_name_that_no_object_can_have_is_not_asked_for(self, world, name):
        """It would be a part of the path of a request with the scheduler's own rights."""
        claim = {"name": "gpu", "resourceClaimTemplateName": name}
        with pytest.raises(ReviewError, match=r"resourceClaims\[0\].*must consist of lower case"):
            await world([node("a")]).review(pod_manifest(resourceClaims=[claim]))
        with pytest.raises(ReviewError, match=r"^spec.pods\[0\].metadata.namespace: Invalid value"):
            await world([node("a")]).review(pod_manifest(namespace=name))

    async def test_a_node_that_is_added_has_no_negative_room(self, world):
        added = [{"node": raw(node_manifest(cpu="-1"))}]
        with pytest.raises(ReviewError, match=r"allocatable\[cpu\].* greater than or equal to 0"):
            await world([node("a")]).review(pod_manifest(), add_nodes=added)

    async def test_another_kind_is_no_pod(self, world):
        with pytest.raises(ReviewError, match=r'^spec.pods\[0\].kind: Unsupported value: "Node"'):
            await world([node("a")]).review(node_manifest())

    async def test_text_is_no_pod(self, world):
        with pytest.raises(ReviewError, match=r"^spec.pods\[0\]: Invalid value: not a Pod"):
            await world([node("a")]).review("text")

    async def test_a_configuration_that_is_none(self, world):
        with pytest.raises(ReviewError, match=r"^spec.configuration: Invalid value: "):
            await world([node("a")]).review(pod_manifest(), configuration="kind: Nonsense")

    async def test_nothing_is_asked(self, world):
        with pytest.raises(ReviewError, match=r"^spec.pods: Required value"):
            await world([node("a")]).review()

    async def test_too_many_pods(self, world):
        with pytest.raises(ReviewLimitError, match="at most 10,000 pods can be placed"):
            await world([node("a")]).review(pod_manifest(), replicas=10_001)


class TestTime:
    async def test_the_answer_is_partial_at_the_time_limit(self, world):
        cluster = world([node("a")])
        ticks = iter(range(1000))
        reviewer = Reviewer(cluster.live, timer=lambda: next(ticks), time_limit_seconds=3)
        status = await cluster.review(pod_manifest(), replicas=5, reviewer=reviewer)
        assert (status.fits, status.placed, status.total) == (False, 3, 5)
        assert status.summary == "3 of 5 fit; the other 2 were not tried."
        assert status.message == (
            "The time limit of 3 seconds was reached: the answer is not complete."
        )

    async def test_other_tasks_run_between_two_pods(self, world):
        cluster, turns = world([node("a")]), 0

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(count())
        await cluster.review(pod_manifest(), replicas=50)
        other.cancel()
        assert turns >= 50

    async def test_copying_rests_after_a_few_objects(self, world):
        nodes = [node(f"n{i}") for i in range(10)]
        cluster = world(nodes, [make_pod(f"p{i}", node=f"n{i % 10}") for i in range(50)])
        rests = []

        class CountingSlices(Slices):
            async def rest(self):
                rests.append(now[0])
                await super().rest()

        now = [0]

        def tick():
            now[0] += 1
            return now[0]

        reviewer = Reviewer(cluster.live, make_slices=lambda: CountingSlices(5, tick))
        await cluster.review(pod_manifest(), reviewer=reviewer)
        # A step of copying is one object: none of the slices has more than five.
        assert len(rests) >= 60 // 6
        assert max(after - before for before, after in pairwise(rests)) <= 6

    async def test_a_cluster_that_changes_meanwhile_is_reviewed_as_it_was(self, world):
        cluster = world([node("a")])
        reviewer = Reviewer(cluster.live, make_slices=lambda: Slices(0.0))
        spec = PlacementReviewSpec(pods=(raw(pod_manifest(cpu="3")),))
        task = asyncio.create_task(reviewer.review(PlacementReview(spec=spec)))
        await asyncio.sleep(0)
        cluster.decide(make_pod("other", requests={"cpu": "3"}))
        assert nodes_of((await task).status) == ["a"]
