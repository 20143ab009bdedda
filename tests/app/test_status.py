"""The status of an instance: who it is, whether it leads, what it holds."""

from kscheduler.app.status import scheduler_status
from kscheduler.metrics import Metrics
from kscheduler.metrics.rates import AttemptRates
from kscheduler.version import KUBERNETES_VERSION, __version__
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until


async def test_a_running_scheduler_tells_its_sizes(running, api):
    async with running() as (daemon, _):
        await until(lambda: daemon.synced)
        api.objects.create(pod_manifest("p"))
        await until(lambda: scheduler_status(daemon).decisions["kept"])
        status = scheduler_status(daemon)
    assert (status.version, status.kubernetes_version) == (__version__, KUBERNETES_VERSION)
    assert status.leader
    assert status.profiles == ("default-scheduler",)
    assert len(status.configuration_hash) == 12
    assert status.metadata.name
    assert (status.cache["nodes"], status.queue["active"]) == (1, 0)
    assert status.decisions["kept"] == 1
    assert 0 < status.decisions["bytes"] < status.decisions["maxBytes"]


def test_rates_are_over_the_last_minute():
    attempts = Metrics().schedule_attempts_total
    rates = AttemptRates(attempts)
    rates.sample(100.0)
    attempts.labels("scheduled", "p").inc(30)
    attempts.labels("error", "p").inc(6)
    rates.sample(160.0)
    told = rates.per_second(160.0)
    assert (told["scheduled"], told["error"]) == (0.5, 0.1)


def test_without_a_second_of_history_there_is_no_rate():
    rates = AttemptRates(Metrics().schedule_attempts_total)
    rates.sample(100.0)
    assert dict(rates.per_second(100.2)) == {}


async def test_profiles_are_told_as_they_are_in_force(running, api):
    async with running() as (daemon, _):
        await until(lambda: daemon.synced)
        [profile] = scheduler_status(daemon).configuration
    points = {one.point: one.plugins for one in profile.points}
    assert profile.scheduler_name == "default-scheduler"
    assert [plugin.name for plugin in points["filter"]][:2] == ["NodeName", "NodeUnschedulable"]
    weights = {plugin.name: plugin.weight for plugin in points["score"]}
    assert (weights["TaintToleration"], weights["NodeAffinity"]) == (3, 2)
    assert b"minCandidateNodesPercentage" in bytes(profile.arguments["DefaultPreemption"])
