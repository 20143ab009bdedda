"""Plugins from outside against the sandbox: what they do wrong costs one pod one attempt."""

from pathlib import Path

import pytest

from tests.integration.cluster import node, pod, until

FAULTY = Path(__file__).with_name("faulty_plugins.py")
SCORER = ("--plugin", f"{FAULTY}:Scorer", "--plugin-timeout=300ms")
FAILED = 'running Score plugins: plugin "Scorer" failed with: '


def profile(**plugins):
    """A profile with these plugins enabled, by point."""
    enabled = {point: {"enabled": [{"name": name}]} for point, name in plugins.items()}
    return [{"schedulerName": "default-scheduler", "plugins": enabled}]


def faults(running):
    """What the daemon has counted: plugin, point, fault → how often."""
    family = running.daemon.made.metrics.kscheduler_plugin_faults_total.collect()
    names = ("plugin", "extension_point", "fault")
    return {tuple(one.labels[name] for name in names): one.value for one in family.samples}


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("raise", "exception", FAILED + "RuntimeError: nobody caught this"),
        ("hang", "timeout", FAILED + "timed out: it had not answered after 300ms"),
        ("nan", "score", FAILED + "a score is not a number"),
        ("shape", "answer", FAILED + "expected 3 scores, got an array of shape (4,)"),
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
    cluster.create(*(node(f"n{i}") for i in range(3)))
    async with cluster.scheduler(args=SCORER, profiles=profile(score="Scorer")) as running:
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


@pytest.mark.parametrize("fault", ["block", "wait"])
async def test_before_binding(cluster, fault):
    cluster.create(node("n"))
    args = ("--plugin", f"{FAULTY}:Waiter", "--plugin-timeout=300ms", "--plugin-wait-timeout=1s")
    async with cluster.scheduler(args=args, profiles=profile(preBind="Waiter")) as running:
        cluster.create(pod("bad", labels={"fault": fault}))
        await until(lambda: cluster.complaint("bad"))
        after = {"block": "300ms", "wait": "1s"}[fault]
        assert cluster.complaint("bad") == (
            f'running PreBind plugin "Waiter": timed out: it had not answered after {after}'
        )
        cluster.create(pod("good"))
        await until(lambda: cluster.place("good"))
        assert faults(running).keys() == {("Waiter", "PreBind", "timeout")}


async def test_a_plugin_that_keeps_failing_is_taken_out(cluster, log):
    cluster.create(node("n1"), node("n2"))
    args = (*SCORER, "--plugin-max-failures=2")
    async with cluster.scheduler(args=args, profiles=profile(score="Scorer")) as running:
        cluster.create(pod("bad", labels={"fault": "raise"}))
        await until(lambda: cluster.place("bad"))
        troubles = running.daemon.scheduler.outside.health.troubles()
        assert troubles == "Scorer was taken out of profile default-scheduler"
        note = (
            'Plugin "Scorer" was taken out of profile default-scheduler because it kept failing '
            "at Score: RuntimeError: nobody caught this"
        )
        await until(lambda: ("PluginTakenOut", note) in cluster.events("bad"))
        assert log.having("Plugin taken out of its profile", 'plugin="Scorer"')
        (sample,) = running.daemon.made.metrics.kscheduler_plugin_taken_out.collect().samples
        assert sample.value == 1
