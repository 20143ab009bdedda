"""The composition root: options in, a running scheduler out.

    startup.setup    options → validated configuration, port, clients     (must succeed at once)
    daemon.run       serve, follow the cluster, win the lease, schedule   (until told to stop)

`setup` and `run` follow kube-scheduler's own order. In between, `scheduler` puts the parts together
and `following` decides which collections of the API server they need.
"""

import asyncio
import importlib
import sys
from collections.abc import Mapping
from typing import Any

import uvloop

from kscheduler import logs
from kscheduler.app.daemon import run
from kscheduler.app.lost_connections import tell_of_errors
from kscheduler.app.signals import stop_on_signals
from kscheduler.app.startup import NO_PLUGINS, Setup, setup, write_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.options import Options

log = logs.logger(__name__)

__all__ = ["Setup", "main", "run", "setup"]


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
        runner.get_loop().set_exception_handler(tell_of_errors)
        return runner.run(_main(options, gates, plugins))


async def _main(options: Options, gates: FeatureGates, plugins: Mapping[str, Any]) -> int:
    this = asyncio.current_task()
    assert this is not None
    # Until there is something to end in order, a signal ends whatever is under way.
    stop_on_signals(this.cancel)
    try:
        async with setup(options, gates, out_of_tree=plugins) as made:
            if options.write_config_to:
                write_config(made.completed.written, options.write_config_to)
                return 0
            return await run(made)
    except asyncio.CancelledError:
        log.info("Requested to terminate, exiting")
        return 0
