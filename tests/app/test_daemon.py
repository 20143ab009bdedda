"""The daemon from its start to its exit code."""

import asyncio
import json

import aiohttp
import pytest

from kscheduler.app import daemon as daemon_module
from kscheduler.errors import KschedulerError
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.kit.ports import free_port

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
LEASE = ("leases.coordination.k8s.io", "kube-scheduler", "kube-system")
SYNC = "sched-handler-sync"
HOUR_LONG = {"holderIdentity": "thief", "leaseDurationSeconds": 3600}
SOON_LOST = "--leader-elect-renew-deadline=1s"


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "scheduler.yaml"
        path.write_text(HEAD + text)
        return f"--config={path}"

    return write


async def code_of(task):
    return await asyncio.wait_for(task, 60)


def steal(api):
    resource, name, namespace = LEASE
    api.objects.update(resource, name, lambda lease: lease["spec"].update(HOUR_LONG), namespace)


def holder(api):
    lease = api.objects.find(*LEASE)
    return lease and lease["spec"]["holderIdentity"]


class TestEnds:
    async def test_told_to_stop_without_election(self, running, log):
        async with running() as (daemon, task):
            await until(lambda: daemon.synced)
            daemon.stopping.set()
            with pytest.raises(KschedulerError, match="finished without leader elect"):
                await code_of(task)

    async def test_told_to_stop_as_leader(self, running, api, log):
        async with running(election=True) as (daemon, task):
            await until(lambda: daemon.elector.is_leader)
            daemon.stopping.set()
            assert await code_of(task) == 0
        assert holder(api) == ""
        assert log.having("acquire", "terminate") == [
            '"Attempting to acquire leader lease..." lock="kube-system/kube-scheduler"',
            '"Successfully acquired lease" lock="kube-system/kube-scheduler"',
            '"Requested to terminate, exiting"',
        ]

    async def test_told_to_stop_as_standby(self, running, api, log):
        spec = {**HOUR_LONG, "leaseTransitions": 1}
        metadata = {"name": LEASE[1], "namespace": LEASE[2]}
        api.objects.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": metadata,
                "spec": spec,
            }
        )
        async with running(election=True) as (daemon, task):
            await until(lambda: daemon.elector.holder == "thief")
            daemon.stopping.set()
            assert await code_of(task) == 0
        assert holder(api) == "thief"

    async def test_the_lease_is_lost(self, running, api, log):
        async with running(SOON_LOST, election=True) as (daemon, task):
            await until(lambda: daemon.elector.is_leader)
            steal(api)
            assert await code_of(task) == 1
        assert holder(api) == "thief"
        assert log.having("renew lease", "lost") == [
            '"Failed to renew lease" lock="kube-system/kube-scheduler" '
            'err="context deadline exceeded"',
            '"Leaderelection lost"',
        ]
        identity = daemon.elector.config.identity
        events = api.objects.list("events", "kube-system")
        assert sorted(event["message"] for event in events) == [
            f"{identity} became leader",
            f"{identity} stopped leading",
        ]

    async def test_the_order_of_the_end(self, running, api, log):
        """The loop, the lease, the port; and then the last word."""
        order, port = [], free_port()

        async def note(request):
            if request.method == "PUT" and "/leases/" in request.path:
                body = json.loads(await request.text())
                if not body["spec"]["holderIdentity"]:
                    order.append("released")
                    order.append(f"ready {await readyz(port)}")

        flags = (f"--secure-port={port}",)
        async with running(*flags, election=True, serving=True) as (daemon, task):
            await until(lambda: daemon.elector.is_leader)
            await until(lambda: daemon.synced)
            assert await readyz(port) == 200
            run = daemon.scheduler.loop._queue.close
            daemon.scheduler.loop._queue.close = lambda: (order.append("queue closed"), run())
            api.interceptors.append(note)
            daemon.stopping.set()
            assert await code_of(task) == 0
        assert order == ["queue closed", "released", "ready 500"]
        assert log.lines[-3:] == [
            '"[graceful-termination] secure server has stopped listening"',
            '"[graceful-termination] secure server is exiting"',
            '"Requested to terminate, exiting"',
        ]

    async def test_what_breaks_inside_ends_it_loudly_and_gives_the_lease_back(
        self, running, api, log
    ):
        async with running(election=True) as (daemon, task):
            await until(lambda: daemon.elector.is_leader)

            def broken(now):
                raise ValueError("a bug")

            daemon.scheduler.queue.flush_backoff_completed = broken
            with pytest.raises(ExceptionGroup) as raised:
                await code_of(task)
        assert raised.group_contains(ValueError, match="a bug")
        assert holder(api) == ""


async def readyz(port):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}/readyz", ssl=False) as answer,
    ):
        return answer.status


class TestScheduling:
    async def test_pods_are_placed(self, running, api, log):
        async with running():
            api.objects.create(pod_manifest("p"))
            await until(lambda: api.objects.get("pods", "p")["spec"].get("nodeName") == "n1")

    async def test_a_standby_follows_but_does_not_schedule(self, running, api, log):
        async with running(election=True) as (leader, _):
            await until(lambda: leader.elector.is_leader)
            async with running(election=True) as (standby, _):
                await until(lambda: standby.synced)
                api.objects.create(pod_manifest("p"))
                await until(lambda: api.objects.get("pods", "p")["spec"].get("nodeName"))
                await until(lambda: standby.scheduler.cache.pod_count == 1)
                assert standby.scheduler.queue.scheduling_cycle == 0
                assert leader.scheduler.queue.scheduling_cycle == 1

    async def test_a_delayed_cache_is_filled_when_leading_begins(self, running, api, config, log):
        delayed = config("delayCacheUntilActive: true\n")
        async with running(election=True) as (leader, leading):
            await until(lambda: leader.elector.is_leader)
            async with running(delayed, election=True) as (standby, _):
                await until(lambda: standby.elector.holder)
                assert not standby.synced
                *_, sync = standby.checks()["readyz"]
                assert sync.probe() == "handlers are not fully synchronized"
                assert len(standby.scheduler.informers.pods) == 0
                leader.stopping.set()
                await code_of(leading)
                api.objects.create(pod_manifest("p"))
                await until(lambda: api.objects.get("pods", "p")["spec"].get("nodeName"))
                assert standby.synced
        assert log.having("informers", "Sync ") == [
            '"Starting informers and waiting for sync..."',
            '"Sync completed"',
        ]


class TestServing:
    @pytest.mark.parametrize(
        ("election", "want"),
        [
            (False, {"healthz": ["ping"], "livez": ["ping"], "readyz": ["shutdown", SYNC]}),
            (
                True,
                {
                    "healthz": ["leaderElection"],
                    "livez": ["ping"],
                    "readyz": ["leaderElection", "shutdown", SYNC],
                },
            ),
        ],
        ids=["alone", "elected"],
    )
    async def test_checks_by_endpoint(self, set_up, election, want):
        async with set_up(election=election) as daemon:
            checks = daemon.checks()
        assert {name: [check.name for check in some] for name, some in checks.items()} == want

    async def test_readiness_follows_the_daemons_life(self, set_up):
        async with set_up() as daemon:
            _, sync = daemon.checks()["readyz"]
            assert sync.probe() == "handlers are not fully synchronized"
            daemon.synced = True
            assert sync.probe() is None
            shutdown, _ = daemon.checks()["readyz"]
            assert shutdown.probe() is None
            daemon.stopping.set()
            assert shutdown.probe() == "process is shutting down"

    async def test_configz_is_the_configuration(self, set_up):
        async with set_up() as daemon:
            shown = json.loads(daemon.configz())
        assert list(shown) == ["componentconfig"]
        assert shown["componentconfig"]["kind"] == "KubeSchedulerConfiguration"
        assert shown["componentconfig"]["leaderElection"]["leaderElect"] is False


class TestWhatIsMissing:
    async def test_plugins_that_are_not_built_are_named(self, set_up, log, monkeypatch):
        missing = {"VolumeZone": "zones are not looked at"}
        monkeypatch.setattr(daemon_module, "not_built", lambda: missing)
        async with set_up() as daemon:
            daemon_module.warn_of_missing_plugins(daemon.cc)
        assert log.having("not available") == [
            "Plugin VolumeZone is not available in this version: zones are not looked at"
        ]

    async def test_plugins_that_nobody_configured_are_not(self, set_up, log, config):
        few = "disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]"
        disabled = f"profiles: [{{plugins: {{multiPoint: {{{few}}}}}}}]\n"
        async with set_up(config(disabled)) as daemon:
            daemon_module.warn_of_missing_plugins(daemon.cc)
        assert log.having("not available") == []


class Holding:
    """A Permit plugin of one's own."""

    name = "Holding"

    def __init__(self, args, handle):
        self.handle = handle
        self.closed = False
        made.append(self)

    def permit(self, cycle, pod, node):
        return None

    def close(self):
        self.closed = True


made = []


async def test_plugins_of_ones_own_take_part_and_are_closed(running, api, config, log):
    enabled = "profiles: [{plugins: {permit: {enabled: [{name: Holding}]}}}]\n"
    async with running(config(enabled), plugins={"Holding": Holding}):
        api.objects.create(pod_manifest("p"))
        await until(lambda: api.objects.get("pods", "p")["spec"].get("nodeName"))
    assert made[-1].closed
    assert made[-1].handle.profile_name == "default-scheduler"
