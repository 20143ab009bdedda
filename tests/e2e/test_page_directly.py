"""`kscheduler ui` on a real API server without an aggregated API: the leader is found by its lease
and asked through the port of its pod, and so is the next one when it is killed.
"""

import asyncio
import re
import signal
import sysconfig
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.controlplane.fixtures import locked
from tests.e2e.cluster import open_cluster
from tests.e2e.identity import LEASE, NAMESPACE
from tests.e2e.kubelet import kubelet
from tests.kit.chromium import WATCH, Tab, chromium
from tests.kit.manifests import node_manifest, pod_manifest

pytestmark = pytest.mark.browser

NODE = "where-the-schedulers-are"
PODS = ("kscheduler-0", "kscheduler-1")
PROGRAM = Path(sysconfig.get_path("scripts")) / "kscheduler"
FLAGS = (
    # All addresses, as in a pod: then the lease names the pod alone.
    "--bind-address=0.0.0.0",
    f"--leader-elect-resource-name={LEASE}",
    f"--leader-elect-resource-namespace={NAMESPACE}",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
)


@pytest.fixture
async def cluster(control_plane, run_folder, tmp_path):
    with locked(run_folder / "controlplane.in-use"):
        async with open_cluster(control_plane, tmp_path) as cluster:
            try:
                yield cluster
            finally:
                await cluster.end_daemons()
                for name in PODS:
                    await cluster.api.delete("pods", name, NAMESPACE)
                await cluster.clear()


@pytest.fixture
async def launch(cluster):
    """Starts a replica in a pod; the kubelet's end of port forwarding stands between."""
    async with kubelet(cluster.server) as (forwarding, port):
        node = node_manifest(NODE, unschedulable=True)
        node["status"] |= {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await cluster.create_nodes(node, node_manifest("n0", cpu="4"), node_manifest("n1", cpu="4"))

        async def launch(name):
            await cluster.api.create("pods", pod_manifest(name, nodeName=NODE), NAMESPACE)
            environment = {"POD_NAMESPACE": NAMESPACE, "POD_NAME": name}
            return await cluster.launch_daemon(*FLAGS, environment=environment)

        launch.forwarding = forwarding
        yield launch


@asynccontextmanager
async def user_interface(cluster):
    """The command as a user starts it; the address that it prints."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "ui",
        f"--kubeconfig={cluster.server / 'kubeconfig'}",
        "--no-browser",
        "--port=0",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        found = re.search(r"page: +(http://\S+)", line)
        assert found, line + (await process.stderr.read()).decode()
        yield found[1]
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            assert await process.stderr.read() == b""
            assert await process.wait() == 130
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_every_view_is_there_and_the_next_leader_is_followed(cluster, launch):
    space = cluster.namespace
    leader = await launch(PODS[0])
    await leader.says("Successfully acquired lease")
    heir = await launch(PODS[1])
    await heir.in_sync()
    await cluster.create_pods(pod_manifest("fits", cpu="1"), pod_manifest("big", cpu="100"))
    await cluster.node_of("fits")
    await cluster.refusal_of("big")
    async with user_interface(cluster) as address, chromium() as browser:
        context = await browser.new_context()
        await context.add_init_script(WATCH)
        page = await context.new_page()
        tab = Tab(page, address.split("/open")[0])
        await page.goto(address)
        assert f"in pod {NAMESPACE}/{PODS[0]}" in await page.inner_text("footer")
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
            assert text in await page.inner_text("main"), view
            await page.wait_for_selector("#connection.live")
        await tab.go("")
        await page.wait_for_selector("#connection.live")
        stream = page.locator(".stream li")
        await cluster.create_pods(pod_manifest("before", cpu="1"))
        await stream.filter(has_text=f"{space}/before").wait_for()
        assert await tab.complaints() == []

        await leader.kill()
        await page.wait_for_selector("#connection.lost")
        assert await page.inner_text("#connection") == "scheduler away"
        await heir.says("Successfully acquired lease")
        await cluster.create_pods(pod_manifest("after", cpu="1"))
        await cluster.node_of("after")
        await page.wait_for_selector("#connection.live", timeout=60_000)
        await stream.filter(has_text=f"{space}/after").wait_for()
        # Above what the first leader decided there is what may be missing.
        lines = await stream.all_inner_texts()
        (gap,) = [number for number, line in enumerate(lines) if "may be missing" in line]
        (before,) = [number for number, line in enumerate(lines) if f"{space}/before" in line]
        (after,) = [number for number, line in enumerate(lines) if f"{space}/after" in line]
        assert after < gap < before
        await tab.go("")
        assert f"in pod {NAMESPACE}/{PODS[1]}" in await page.inner_text("footer")
        asked = {one.match_info["pod"] for one in launch.forwarding.requests}
        assert asked == {*PODS}
        complaints = [text for text in await tab.complaints() if "502" not in text]
        assert complaints == []
