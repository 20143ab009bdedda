"""A plugin class of others, as a framework runs it."""

from types import SimpleNamespace

import pytest

from kscheduler.api.core import Node
from kscheduler.api.meta import ObjectMeta
from kscheduler.runtime.handle import OutOfTreeServices
from kscheduler.runtime.out_of_tree.health import Limits
from kscheduler.runtime.out_of_tree.registration import register_class
from kscheduler.state.cache import Cache


class Recorder:
    def __init__(self):
        self.events = []

    def event(self, pod, kind, reason, action, note):
        self.events.append((pod.name, kind, reason, note))


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def limits():
    return Limits(call_seconds=0.2, wait_seconds=0.2)


@pytest.fixture
def guarded(handle, recorder, limits):
    """`guarded(name="A", filter=…)`: a plugin of these methods, or of this class."""

    def make(plugin_class=None, /, *, args=None, limits=limits, **methods):
        if plugin_class is None:
            methods = {"name": "A", "__init__": lambda self, args, handle: None, **methods}
            plugin_class = type("A", (), methods)
        handle.recorder = recorder
        handle.out_of_tree = OutOfTreeServices(limits=limits)
        handle.client = SimpleNamespace()
        return register_class(plugin_class, "test")(args, handle)

    return make


@pytest.fixture
def faults(metrics):
    """What was counted: point and fault → how often."""

    def read():
        family = metrics.kscheduler_plugin_faults_total.collect()
        return {
            (sample.labels["extension_point"], sample.labels["fault"]): sample.value
            for sample in family.samples
        }

    return read


@pytest.fixture
def cluster():
    """Three nodes with labels, annotations and a zone each."""
    cache = Cache()
    for index in range(3):
        metadata = ObjectMeta(
            name=f"n{index}",
            uid=f"n{index}",
            labels={"zone": f"z{index % 2}", "rank": str(index)},
            annotations={"load": str(index * 10)},
        )
        cache.add_node(Node(metadata=metadata))
    return cache
