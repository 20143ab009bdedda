"""The program as a process: signals in, exit codes out."""

import asyncio

from tests.integration.cluster import ELECTED, holder, pod, program
from tests.kit.manifests import node_manifest
from tests.kit.polling import until


async def ended(process):
    _, stderr = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, stderr.decode()


async def test_signal_ends_a_scheduler_without_election_by_its_usual_error(cluster):
    cluster.create(node_manifest("n1"), pod("p1"))
    async with program(cluster.arguments()) as process:
        await until(lambda: cluster.place("p1"))
        process.terminate()
        code, stderr = await ended(process)
    assert code == 1
    assert '"command failed" err="finished without leader elect"' in stderr
    assert "Traceback" not in stderr


async def test_signal_ends_a_leader_well_and_gives_the_lease_back(cluster):
    cluster.create(node_manifest("n1"), pod("p1"))
    async with program(cluster.arguments(leaderElection=ELECTED)) as process:
        await until(lambda: cluster.place("p1"))
        assert holder(cluster)
        process.terminate()
        code, stderr = await ended(process)
    assert code == 0
    assert '"Requested to terminate, exiting"' in stderr
    assert "Traceback" not in stderr
    assert holder(cluster) == ""


async def test_second_signal_ends_it_at_once(cluster):
    """Even if the first one cannot: here the lease cannot be given back."""
    cluster.create(node_manifest("n1"), pod("p1"))
    stuck = asyncio.Event()

    async def hold(request):
        if process.signalled and "/leases/" in request.path:
            stuck.set()
            await asyncio.sleep(3600)

    elected = {**ELECTED, "leaseDuration": "300s", "renewDeadline": "200s"}
    async with program(cluster.arguments(leaderElection=elected)) as process:
        process.signalled = False
        cluster.api.interceptors.append(hold)
        await until(lambda: cluster.place("p1"))
        process.signalled = True
        process.terminate()
        await asyncio.wait_for(stuck.wait(), 30)
        assert process.returncode is None
        process.terminate()
        code, _ = await ended(process)
    assert code == 1


async def test_signal_during_start_ends_it_too(cluster):
    await cluster.api.stop_listening()
    async with program(cluster.arguments()) as process:
        line = b""
        while b"cannot be reached" not in line:
            line = await asyncio.wait_for(process.stderr.readline(), 30)
        process.terminate()
        code, stderr = await ended(process)
    assert code in (0, 1)
    assert "Traceback" not in stderr
