"""The page while another instance takes over: found by its Lease, and what was missed is said."""

import asyncio

import pytest

from kscheduler.api.explanation import ADDRESS_ANNOTATION
from kscheduler.client.explanation_client import Target
from kscheduler.sandbox import ApiServer
from tests.integration.cluster import ELECTED, Cluster, pod
from tests.kit.chromium import chromium, tab_on
from tests.kit.manifests import node_manifest
from tests.kit.polling import PATIENCE_SECONDS, until
from tests.kit.ports import free_port
from tests.ui.opened import House

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
async def cluster(tmp_path):
    async with ApiServer(tls=True) as api:
        made = Cluster(api, tmp_path)
        made.create(node_manifest("n1"), pod("early"))
        yield made
        await asyncio.wait_for(api.stop(), PATIENCE_SECONDS)


def replica(cluster):
    """A scheduler whose lease says at which address of loopback it is asked."""
    where = cluster.kubeconfig()
    flags = ["--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
    flags += [f"--authentication-kubeconfig={where}", f"--authorization-kubeconfig={where}"]
    return cluster.scheduler(args=flags, leaderElection=ELECTED)


def says_where(cluster):
    lease = cluster.api.objects.get("leases.coordination.k8s.io", "kube-scheduler", "kube-system")
    return ADDRESS_ANNOTATION in lease["metadata"].get("annotations", {})


async def test_the_next_leader_is_followed_and_the_gap_is_told(cluster, tmp_path_factory):
    house = House(cluster, 0, tmp_path_factory.mktemp("users"))
    async with chromium() as browser, replica(cluster) as leader:
        await until(lambda: cluster.place("early") and says_where(cluster))
        async with house.page_by(Target()) as server, tab_on(browser, server) as tab:
            page = tab.page
            stream = page.locator(".stream li")
            await page.wait_for_selector("#connection.live")
            await stream.filter(has_text="default/early").wait_for()
            footer = await page.inner_text("footer")
            assert "asking the scheduler of Lease kube-system/kube-scheduler, at 127." in footer
            assert await leader.stop() == 0
            await page.wait_for_selector("#connection.lost")
            assert await page.inner_text("#connection") == "scheduler away"
            # A view that is opened meanwhile says so, and is there when the next one leads.
            other = await page.context.new_page()
            await other.goto(f"{tab.root}/pods/default/late")
            assert "The scheduler does not answer" in await other.inner_text("main")
            cluster.create(pod("late"))
            async with replica(cluster) as heir:
                await until(lambda: cluster.place("late"))
                await page.wait_for_selector("#connection.live", timeout=60_000)
                await stream.filter(has_text="default/late").wait_for()
                await other.wait_for_selector("#answer .badge.placed")
                lines = await stream.all_inner_texts()
                assert ["late" in lines[0], "may be missing" in lines[1]] == [True, True]
                assert "early" in lines[2]
                assert "1 gap" in await page.inner_text("#counted")
                # Whoever opens it later is told as well.
                await page.reload()
                assert "may be missing" in (await stream.all_inner_texts())[1]
                # From here on nothing is missed again.
                cluster.create(pod("later"))
                await stream.filter(has_text="default/later").wait_for()
                assert "none missed" in await page.inner_text("#counted")
                assert [text for text in await tab.complaints() if "502" not in text] == []
                await heir.stop()
