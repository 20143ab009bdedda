"""Out-of-tree plugins against the sandbox: what they do wrong costs one pod one attempt."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.integration.cluster import pod
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

pytestmark = pytest.mark.slow

PLUGINS = Path(__file__).with_name("labelled_plugins.py")
SCORER = ("--plugin", f"{PLUGINS}:Scorer", "--plugin-timeout=60s")
HANGING = (*SCORER, "--plugin-timeout=300ms")
FAILED = 'running Score plugins: plugin "Scorer" failed with: '


def profile(**plugins):
    """A profile with these plugins enabled, by point."""
    enabled = {point: {"enabled": [{"name": name}]} for point, name in plugins.items()}
    return [{"schedulerName": "default-scheduler", "plugins": enabled}]


def faults(running):
    """What the daemon has counted: plugin, point, fault → how often."""
    family = running.daemon.cc.metrics.kscheduler_plugin_faults_total.collect()
    names = ("plugin", "extension_point", "fault")
    return {tuple(one.labels[name] for name in names): one.value for one in family.samples}


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("raise", "exception", FAILED + "RuntimeError: nobody caught this"),
        ("hang", "timeout", FAILED + "timed out: it had not answered after 300ms"),
        ("nan", "score", FAILED + "a score is not a number"),
        ("shape", "answer", FAILED + "expected an array of 3 scores, got an array of shape (4,)"),
        (
            "range",
            "score",
            "applying score defaultWeights on Score plugins: "
            'plugin "Scorer" returns an invalid score 101, '
            "it should in the range of [0, 100] after normalizing",
        ),
        (
            "mutate",
            "mutation",
            FAILED + "tried to change what it was given: "
            "ValueError: assignment destination is read-only",
        ),
        (
            "labels",
            "mutation",
            FAILED + "tried to change what it was given: "
            "TypeError: 'mappingproxy' object does not support item assignment",
        ),
    ],
)
async def test_the_loop_goes_on_and_the_pod_is_told(cluster, fault, kind, message):
    cluster.create(*(node_manifest(f"n{i}") for i in range(3)))
    args = HANGING if fault == "hang" else SCORER
    async with cluster.scheduler(args=args, profiles=profile(score="Scorer")) as running:
        cluster.create(pod("bad", labels={"fault": fault}), pod("good"))
        await until(lambda: cluster.place("good"))
        await until(lambda: cluster.complaint("bad"))
        await until(lambda: cluster.events("bad"))
        assert cluster.complaint("bad") == message
        assert set(cluster.events("bad")) == {("FailedScheduling", message)}
        assert faults(running).keys() == {("Scorer", "Score", kind)}
        # It has its next attempt, and the world is as it was.
        cluster.create(pod("later"))
        await until(lambda: cluster.place("later"))
        await until(lambda: faults(running)["Scorer", "Score", kind] >= 2)
        assert cluster.place("bad") is None


async def test_a_plugin_that_hangs_is_interrupted_beside_the_thread_that_renews(cluster):
    """Of the process's threads, the signal reaches the one that hangs."""
    cluster.create(node_manifest("n1"), node_manifest("n2"))
    election = {"leaderElect": True, "retryPeriod": "10ms"}
    config = {"profiles": profile(score="Scorer"), "leaderElection": election}
    async with cluster.scheduler(args=HANGING, **config) as running:
        cluster.create(pod("bad", labels={"fault": "hang"}))
        await until(lambda: "after 300ms" in cluster.complaint("bad"))
        await until(lambda: faults(running)["Scorer", "Score", "timeout"] >= 2)
        assert running.daemon.elector.is_leader


@pytest.mark.parametrize(
    ("fault", "flags", "after"),
    [
        ("block", ("--plugin-timeout=300ms", "--plugin-wait-timeout=1m"), "300ms"),
        ("wait", ("--plugin-timeout=1m", "--plugin-wait-timeout=1s"), "1s"),
    ],
    ids=["block", "wait"],
)
async def test_before_binding(cluster, fault, flags, after):
    cluster.create(node_manifest("n"))
    args = ("--plugin", f"{PLUGINS}:Waiter", *flags)
    async with cluster.scheduler(args=args, profiles=profile(preBind="Waiter")) as running:
        cluster.create(pod("bad", labels={"fault": fault}))
        await until(lambda: cluster.complaint("bad"))
        assert cluster.complaint("bad") == (
            f'running PreBind plugin "Waiter": timed out: it had not answered after {after}'
        )
        cluster.create(pod("good"))
        await until(lambda: cluster.place("good"))
        assert faults(running).keys() == {("Waiter", "PreBind", "timeout")}


async def test_a_plugin_that_keeps_failing_is_taken_out(cluster, log):
    cluster.create(node_manifest("n1"), node_manifest("n2"))
    args = (*SCORER, "--plugin-max-failures=2")
    async with cluster.scheduler(args=args, profiles=profile(score="Scorer")) as running:
        cluster.create(pod("bad", labels={"fault": "raise"}))
        await until(lambda: cluster.place("bad"))
        troubles = running.daemon.scheduler.out_of_tree.health.troubles()
        assert troubles == "Scorer was taken out of profile default-scheduler"
        note = (
            'Plugin "Scorer" was taken out of profile default-scheduler because it kept failing '
            "at Score: RuntimeError: nobody caught this"
        )
        await until(lambda: ("PluginTakenOut", note) in cluster.events("bad"))
        assert log.having("Plugin taken out of its profile", 'plugin="Scorer"')
        (sample,) = running.daemon.cc.metrics.kscheduler_plugin_taken_out.collect().samples
        assert sample.value == 1


GATED = {"args": ("--plugin", f"{PLUGINS}:Gate"), "profiles": profile(permit="Gate")}


async def test_pods_wait_for_permission_with_a_node_in_sight(cluster):
    cluster.create(node_manifest("n"))
    async with cluster.scheduler(**GATED):
        cluster.create(pod("held"))
        await until(lambda: cluster.pod("held").get("status", {}).get("nominatedNodeName") == "n")
        assert cluster.waiting() == ["held"]
        cluster.create(pod("last", labels={"others": "allow"}))
        await until(lambda: not cluster.waiting())


async def test_a_pod_that_is_rejected_while_it_waits_is_told_by_whom(cluster):
    cluster.create(node_manifest("n"))
    async with cluster.scheduler(**GATED) as running:
        cluster.create(pod("held"))
        await until(lambda: len(waiting_pods(running)) == 1)
        cluster.create(pod("last", labels={"others": "reject"}))
        await until(lambda: cluster.complaint("held"))
        assert cluster.complaint("held") == "0/1 nodes are available: 1 not today."
        await until(lambda: cluster.events("held"))
        assert ("FailedScheduling", "0/1 nodes are available: 1 not today.") in cluster.events(
            "held"
        )


async def test_a_pod_that_is_deleted_while_it_waits_gives_its_room_back(cluster):
    cluster.create(node_manifest("n", cpu="1"))
    async with cluster.scheduler(**GATED) as running:
        cluster.create(pod("held", cpu="800m"))
        await until(lambda: len(waiting_pods(running)) == 1)
        cluster.create(pod("next", cpu="800m", labels={"others": "none"}))
        await until(lambda: cluster.complaint("next"))
        cluster.api.objects.delete("pods", "held", "default")
        await until(lambda: cluster.place("next"))
        assert len(waiting_pods(running)) == 0


def waiting_pods(running):
    (framework,) = running.daemon.scheduler.frameworks.values()
    return framework._handle.waiting_pods


SCHEDULER_OF_ONES_OWN = """
import sys
from kscheduler.app import main

class Last:
    name = "Last"

    def __init__(self, args, handle):
        pass

    def score_node(self, cycle, pod, node):
        return 100 if node.name == "n3" else 0

sys.exit(main(plugins={"Last": Last}))
"""


async def test_a_scheduler_of_ones_own_takes_the_usual_command_line(cluster):
    cluster.create(*(node_manifest(f"n{i}") for i in (1, 2, 3)))
    profiles = profile(score="Last")
    profiles[0]["plugins"]["score"]["enabled"][0]["weight"] = 100
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCHEDULER_OF_ONES_OWN, *cluster.arguments(profiles=profiles)
    )
    try:
        cluster.create(pod("p"))
        await until(lambda: cluster.place("p"))
        assert cluster.place("p") == "n3"
    finally:
        process.terminate()
        await process.wait()


async def test_readiness_names_a_plugin_that_keeps_failing(cluster):
    cluster.create(node_manifest("n1"), node_manifest("n2"))
    async with cluster.scheduler(args=SCORER, profiles=profile(score="Scorer")) as running:
        (check,) = (
            one for one in running.daemon.checks()["readyz"] if one.name == "outside-plugins"
        )
        assert (check.probe(), check.remark()) == (None, "")
        cluster.create(pod("bad", labels={"fault": "raise"}))
        named = r"Scorer failed [3-9] times in a row at Score in profile default-scheduler"
        await until(lambda: re.fullmatch(named, check.remark()))
        assert check.probe() is None
