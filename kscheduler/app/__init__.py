"""The composition root: options in, an exit code out.

    startup.setup    options → configuration, clients, scheduler      (must succeed at once)
    daemon.run       events, health, serving, informers, election, loop     (until a signal)

Open `startup` first: `setup` and `run` are kube-scheduler's own two steps, in its order. The
module `scheduler` makes cache, queue, plugins and cycle; `informers` knows the collections of the
API server that they read; `election`, `extenders`, `memory`, `signals`, `status` and `debugger`
hold one topic each.
"""

import asyncio
import importlib
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop

from kscheduler import logs
from kscheduler.app.daemon import Daemon, run
from kscheduler.app.signals import stop_on_signals
from kscheduler.app.startup import NO_PLUGINS, setup, write_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.options import Options

log = logs.logger(__name__)

__all__ = ["Daemon", "main", "run", "setup"]


def main(
    options: Options | None = None,
    gates: FeatureGates | None = None,
    *,
    plugins: Mapping[str, Any] = NO_PLUGINS,
) -> int:
    """Sets up and runs; the exit code is kube-scheduler's.

    A scheduler of one's own gives nothing but plugin classes by name, and takes the command line:

        sys.exit(main(plugins={"NodeLoad": NodeLoad}))
    """
    if options is None:
        # The command line is above us, and only this caller wants it from here.
        commands = importlib.import_module("kscheduler.cli.daemon")
        code: int = commands.run_daemon(sys.argv[1:], plugins)
        logs.flush()
        return code
    gates = gates or options.gates()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().set_exception_handler(log_loop_error)
        runner.get_loop().set_default_executor(_UnhurriedThreads(thread_name_prefix="loop"))
        return runner.run(_main(options, gates, plugins))


class _UnhurriedThreads(ThreadPoolExecutor):
    """Threads of the loop. None of them holds anything that would have to be ended in order, and
    the loop does not wait for modules that are still being imported, or for a name server.
    """

    def shutdown(self, *_: object, **__: object) -> None:
        super().shutdown(wait=False, cancel_futures=True)


async def _main(options: Options, gates: FeatureGates, plugins: Mapping[str, Any]) -> int:
    this = asyncio.current_task()
    assert this is not None
    # Until there is something to end in order, a signal ends whatever is under way.
    stop_on_signals(this.cancel)
    try:
        async with setup(options, gates, out_of_tree=plugins) as daemon:
            if options.write_config_to:
                write_config(daemon.cc.completed.written, options.write_config_to)
                return 0
            return await run(daemon)
    except asyncio.CancelledError:
        log.info("Requested to terminate, exiting")
        return 0


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's exception handler.

    When a connection is lost between TCP's handshake and TLS's, uvloop writes to a transport that
    is closed already, and reports that here instead of to the task that connects, which finds out
    by its own timeout. One line is enough for it; everything else gets the default treatment.
    """
    error = context.get("exception")
    if isinstance(error, RuntimeError) and "the handler is closed" in str(error):
        log.info("Connection lost before the TLS handshake", err=error)
    else:
        loop.default_exception_handler(context)
