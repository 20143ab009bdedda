"""Rows in which the server itself ends and comes back."""

import asyncio

from tests.controlplane.binaries import program
from tests.controlplane.plane import ControlPlane, answers, etcd_flags
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row
from tests.kit.polling import until


class RestartedServers(Row):
    """The server's watch cache is empty when it comes back; etcd keeps what it has written."""

    number = 23
    title = "etcd restarted; API server restarted, with its watch cache cold"
    restarts_server = True
    patience_seconds = 120.0

    async def fault(self, rig: Rig) -> None:
        plane = rig.plane
        assert plane is not None, "this row restarts a server of its own"
        etcd = plane.processes["etcd"]
        etcd.kill()
        etcd.wait()
        await rig.pause(FAULT_SECONDS / 5)
        await asyncio.to_thread(start_etcd, plane)
        rig.proxy.counts["etcd restarted"] += 1
        await rig.pause(FAULT_SECONDS / 5)
        plane.kill_api_server()
        # Who connects now is to be refused, as by a machine on which nobody listens.
        rig.proxy.refuse()
        starting = asyncio.create_task(asyncio.to_thread(plane.start_api_server))
        await until(lambda: is_listening(plane.port), "the API server listens")
        await rig.proxy.accept()
        await starting
        rig.proxy.counts["API server restarted"] += 1


def start_etcd(plane: ControlPlane) -> None:
    """On the data and the address that it had before."""
    plane.run("etcd", program("etcd"), *etcd_flags(plane.folder, plane.etcd_url))
    plane.wait("etcd", lambda: answers(f"{plane.etcd_url}/health"))


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


ROWS = (RestartedServers(),)
