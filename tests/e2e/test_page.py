"""The page on a real API server and on the embedded one, through either."""

import pytest

from kscheduler.client.clientcmd.loading_rules import Overrides, load_client_config
from kscheduler.client.explanation_client import Target, reach
from kscheduler.ui.reached import ReachedSource
from kscheduler.ui.server import Server
from tests.e2e.explanation import aggregated, serving_flags
from tests.kit.chromium import chromium, tab_on
from tests.kit.manifests import node_manifest, pod_manifest

pytestmark = pytest.mark.browser


@pytest.fixture
async def server(cluster, tmp_path):
    """The page of a scheduler that has placed a pod and lets one wait."""
    await cluster.create_nodes(*(node_manifest(f"n{number}", cpu="4") for number in range(3)))
    daemon = await cluster.start_daemon(*serving_flags(tmp_path))
    async with aggregated(cluster, daemon):
        await cluster.create_pods(pod_manifest("fits", cpu="1"), pod_manifest("big", cpu="100"))
        await cluster.node_of("fits")
        await cluster.refusal_of("big")
        path = str(cluster.server / "kubeconfig")
        config = load_client_config(Overrides(kubeconfig=path, namespace=cluster.namespace))
        target = Target(aggregated=True)
        source = ReachedSource(
            lambda: reach(config, target, agent="test", timeout_seconds=30.0),
            namespace=cluster.namespace,
        )
        async with source, Server(source).serving() as page:
            yield page


async def test_every_view_is_drawn_and_live(cluster, server):
    space = cluster.namespace
    async with chromium() as browser, tab_on(browser, server) as tab:
        for view, text in (
            ("", "decides:"),
            ("nodes", "3 nodes"),
            ("nodes/n1", "Room"),
            (f"pods/{space}/fits", "that fit of 3 nodes"),
            (f"pods/{space}/big", "None of 3 nodes can take it"),
            ("pending", "1 pod waits"),
            (f"what-if?pod={space}/big&cpu=1&ask=1", "It fits, on 1 node."),
            ("configuration", "Profile"),
        ):
            assert await tab.go(view) == 200
            assert text in await tab.page.inner_text("main"), view
            await tab.page.wait_for_selector("#connection.live")
        await tab.go(f"pods/{space}/big")
        await tab.page.wait_for_selector("#remedies .better")
        await tab.go("")
        await tab.page.wait_for_selector("#connection.live")
        await cluster.create_pods(pod_manifest("later", cpu="1"))
        await tab.page.locator(".stream li", has_text=f"{space}/later").wait_for()
        assert await tab.complaints() == []
