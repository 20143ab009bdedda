"""What kube-scheduler 1.37 logs at -v=5, by message: level, keys, who speaks; looked for in ours.

The recorded story is played on the embedded cluster: pods that fit, that do not, that are gated,
that preempt and are deleted.
"""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kscheduler import logs
from kscheduler.app import debugger
from kscheduler.app.startup import setup
from kscheduler.cli.command_line import parse
from kscheduler.sandbox import ApiServer, User
from tests.kit.manifests import node_manifest, pod_manifest
from tests.kit.polling import until

RECORDED = json.loads((Path(__file__).parent / "cases/log-lines.json").read_text())
SCHEDULER = User("system:kube-scheduler").authenticated()
PATIENCE_SECONDS = 60.0
# What we do not say: a line per event and waiting pod would cost more than the work it tells of,
# and some speak of what is not done here.
SILENT = {
    "Checking event for in-flight pod",
    "Checking events for in-flight pod",
    "Event is not making entity schedulable",
    "Event received while entities are in flight",
    "another scheduled pod was deleted, and it may make the unscheduled pod schedulable",
    "OpportunisticBatch set cycle state",
    "Exiting watch because received the bookmark that marks the end of initial events stream",
    # These are said by the command, the port and the process, and are tested there.
    "Starting Kubernetes Scheduler",
    "Golang settings",
    "[graceful-termination] secure server has stopped listening",
    "[graceful-termination] secure server is exiting",
}

# What a line does not tell here: who asks is known one call further up.
LEFT_OUT = {"OpportunisticBatch found unusable state": {"pod"}}


@dataclass
class Entry:
    """All lines of one message."""

    v: int | None
    logger: str | None
    keys: list = field(default_factory=list)


class Said:
    """Lines of the log, by message."""

    def __init__(self):
        self.by_message = {}

    def write(self, line, /):
        said = json.loads(line)
        level = said.pop("v", None)
        entry = self.by_message.setdefault(said.pop("msg"), Entry(level, said.get("logger")))
        entry.keys.append(said.keys() - {"ts", "caller"})

    def flush(self):
        pass


@pytest.fixture(scope="module")
def said():
    lines = Said()
    logs.configure(logs.Logging(format="json", verbosity=5), stderr=lines)
    asyncio.run(story())
    logs.configure(logs.Logging())
    return lines.by_message


async def story():
    async with ApiServer(anonymous=SCHEDULER, disable_admission=["Priority"]) as api:
        options, _ = parse([f"--master={api.url}", "--secure-port=0", "-v=5"])
        async with setup(options, options.gates()) as daemon:
            running = asyncio.create_task(daemon.run())
            await until(lambda: daemon.synced and daemon.elector.is_leader)
            await play(api)
            await debugger.dump(daemon.scheduler)
            daemon.stopping.set()
            assert await running == 0


async def play(api):
    objects = api.objects
    for name in ("n1", "n2"):
        objects.create(node_manifest(name, cpu="2", memory="8Gi", pods=20))
    for name in "abcd":
        objects.create(pod_manifest(name, cpu="1"))
    await until(lambda: len(placed(api)) == 4)
    objects.create(pod_manifest("big", cpu="8"))
    objects.create(pod_manifest("gated", cpu="1", schedulingGates=[{"name": "g"}]))
    await until(lambda: conditions(api, "big"))
    objects.create(pod_manifest("high", cpu="2", priority=1000))
    await until(lambda: len(leaving(api)) == 2)
    # When one of its victims is gone, it is tried once more, and waits for the other.
    objects.delete("pods", leaving(api)[0], grace_period_seconds=0)
    await until(lambda: "not eligible" in conditions(api, "high")[0].get("message", ""))
    for name in "abcd":
        if objects.find("pods", name):
            objects.delete("pods", name, grace_period_seconds=0)
    await until(lambda: "high" in placed(api))
    objects.update("pods", "gated", lambda it: it["spec"].pop("schedulingGates"))
    objects.update("nodes", "n1", lambda it: it["metadata"].update(labels={"a": "b"}))
    await until(lambda: "gated" in placed(api))


def placed(api):
    return {p["metadata"]["name"] for p in api.objects.list("pods") if p["spec"].get("nodeName")}


def leaving(api):
    pods = (p["metadata"] for p in api.objects.list("pods"))
    return [metadata["name"] for metadata in pods if "deletionTimestamp" in metadata]


def conditions(api, name):
    return api.objects.get("pods", name).get("status", {}).get("conditions")


@pytest.mark.parametrize("message", sorted(RECORDED.keys() - SILENT))
def test_a_line_is_said_as_upstream_says_it(said, message):
    want = RECORDED[message]
    assert message in said
    entry = said[message]
    assert (entry.v, entry.logger) == (want["v"], want.get("logger"))
    always = set(want["keys"]) - LEFT_OUT.get(message, set())
    for keys in entry.keys:
        assert always <= keys <= always | set(want.get("sometimes", ()))


def test_what_we_do_not_say_is_not_said(said):
    assert RECORDED.keys() >= SILENT
    assert not SILENT & said.keys()
