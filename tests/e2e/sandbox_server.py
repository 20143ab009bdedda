"""The embedded cluster as a process of its own, over TLS, with the users a control plane has.

    python -m tests.e2e.sandbox_server DIR

Leaves the same kubeconfigs in DIR as a control plane would, prints `ready`, ends on SIGTERM.
"""

import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from kscheduler.sandbox import ApiServer, User
from tests.controlplane.plane import ADMIN, USERS
from tests.e2e import identity


async def main(folder: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with ApiServer(tls=True) as server:
        for name, (user, group) in USERS.items():
            path = folder / ("kubeconfig" if name == ADMIN else f"{name}.kubeconfig")
            server.write_kubeconfig(path, User(user, (group,) if group else ()))
        server.write_kubeconfig(folder / identity.STATIC, User(identity.USER, identity.GROUPS))
        print("ready", flush=True)
        await stop.wait()


uvloop.run(main(Path(sys.argv[1])))
