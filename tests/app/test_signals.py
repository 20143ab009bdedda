"""Signals at every stage of the daemon's life."""

import asyncio
import os
import signal

import pytest

from kscheduler import app
from kscheduler.app import signals
from kscheduler.app.debugger import dump
from kscheduler.app.startup import NO_PLUGINS
from kscheduler.cli.command_line import parse
from kscheduler.sandbox import node_manifest
from kscheduler.slices import Slices
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_stops_and_the_second_is_impatient(monkeypatch, number):
    told = []
    monkeypatch.setattr(os, "_exit", lambda code: told.append(code))
    signals.stop_on_signals(lambda: told.append("stop"))
    send(number)
    await until(lambda: told)
    assert told == ["stop"]
    send(number)
    await until(lambda: told[1:])
    assert told[:2] == ["stop", 1]


@pytest.mark.usefixtures("hang_up_counts")
async def test_the_impatient_exit_is_prepared_and_a_closed_terminal_counts(monkeypatch):
    told = []
    monkeypatch.setattr(os, "_exit", lambda code: told.append(code))
    signals.stop_on_signals(
        lambda: told.append("stop"), hang_up=True, before_exit=lambda: told.append("prepared")
    )
    send(signal.SIGHUP)
    await until(lambda: told)
    send(signal.SIGTERM)
    await until(lambda: told[2:])
    assert told == ["stop", "prepared", 1]


async def test_a_closed_terminal_that_is_to_be_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signals.stop_on_signals(lambda: None, hang_up=True)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_the_latest_to_ask_is_the_one_who_hears():
    told = []
    signals.stop_on_signals(lambda: told.append("early"))
    signals.stop_on_signals(lambda: told.append("late"))
    send(signal.SIGTERM)
    await until(lambda: told)
    assert told == ["late"]


async def test_a_signal_during_setup_ends_it(log):
    """Here the API server takes connections, and that is all it ever does."""
    connected = asyncio.Event()

    async def silent(reader, writer):
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options, _ = parse([f"--master=http://127.0.0.1:{port}", "--secure-port=0"])
    main = asyncio.create_task(app._main(options, options.gates(), NO_PLUGINS))
    await asyncio.wait_for(connected.wait(), 60)
    send(signal.SIGTERM)
    assert await asyncio.wait_for(main, 60) == 0
    assert log.lines[-1] == '"Requested to terminate, exiting"'
    server.close()
    await server.wait_closed()


async def test_a_signal_ends_what_runs_by_the_daemons_rules(api, log):
    flags = [f"--master={api.url}", "--secure-port=0"]
    options, _ = parse(flags)
    main = asyncio.create_task(app._main(options, options.gates(), NO_PLUGINS))
    await until(lambda: log.having("Successfully acquired lease"))
    send(signal.SIGUSR2)
    await until(lambda: log.having("Dump of scheduling queue"))
    send(signal.SIGTERM)
    assert await asyncio.wait_for(main, 60) == 0


async def test_cache_and_queue_are_told(running, api, log):
    async with running() as (daemon, _):
        scheduler = daemon.scheduler
        api.objects.create(pod_manifest("placed"))
        api.objects.create(pod_manifest("gated", schedulingGates=[{"name": "g"}]))
        await until(lambda: api.objects.get("pods", "placed")["spec"].get("nodeName"))
        await until(lambda: scheduler.queue.get("default/gated"))
        await until(lambda: scheduler.cache.pod_count and not scheduler.cache.assumed_pod_count)
        log.lines.clear()
        await dump(scheduler)
    assert not log.having("Cache mismatch")
    told = "\n".join(log.lines)
    assert '"Dump of cached NodeInfo" nodes=' in told
    assert "name: placed, namespace: default" in told
    assert 'summary="activeQ:0; backoffQ:0; unschedulableEntities:1"' in told
    assert "name: gated, namespace: default" in told


async def test_what_disagrees_is_told(running, api, log):
    async with running() as (daemon, _):
        await until(lambda: daemon.synced)
        api.objects.create(pod_manifest("p"))
        await until(lambda: daemon.scheduler.cache.pod_count == 1)
        known = next(iter(daemon.scheduler.cache.pods))
        del daemon.scheduler.informers.pods._store["default/p"]
        daemon.scheduler.informers.nodes._store.clear()
        log.lines.clear()
        await dump(daemon.scheduler)
    assert log.having("Cache mismatch") == [
        '"Cache mismatch" missedNodes=[] redundantNodes=["n1"]',
        f'"Cache mismatch" missedPods=[] redundantPods=["{known.uid}"]',
    ]


async def test_a_second_signal_while_one_is_answered_starts_nothing():
    started, go_on = [], asyncio.Event()

    async def dump():
        started.append(1)
        await go_on.wait()

    signals.dump_on_signal(dump)
    send(signal.SIGUSR2)
    await until(lambda: started)
    send(signal.SIGUSR2)
    await asyncio.sleep(0.01)
    assert started == [1]
    go_on.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    send(signal.SIGUSR2)
    await until(lambda: started == [1, 1])


async def test_nodes_are_told_with_room_for_others(running, api, log, monkeypatch):
    """Others may change what is told: a node that goes before its turn is not told."""
    for number in range(2, 30):
        api.objects.create(node_manifest(f"n{number}"))
    async with running() as (daemon, _):
        await until(lambda: daemon.synced)
        cache, rests = daemon.scheduler.cache, []

        async def rest(slices):
            rests.append(len(log.having("Dump of cached")))
            if len(rests) == 5:
                cache.remove_node(daemon.scheduler.informers.nodes.get("n20"))

        monkeypatch.setattr(Slices, "due", lambda slices: True)
        monkeypatch.setattr(Slices, "rest", rest)
        log.lines.clear()
        await dump(daemon.scheduler)
    told = "\n".join(log.lines)
    assert rests == [*range(1, 29), 28]
    assert "Node name: n19\n" in told
    assert "Node name: n20\n" not in told
