"""The package that `kscheduler plugin new` writes: a plugin that works, to begin with."""

import importlib.util
import keyword
import re
from string import Template

import msgspec

from kscheduler.plugins import REGISTRY

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")


class PluginNames(msgspec.Struct, frozen=True):
    """One name in its three spellings: `SpreadByRack`, `spread_by_rack`, `spread-by-rack`."""

    plugin: str
    module: str
    package: str

    @classmethod
    def of(cls, given: str) -> "PluginNames":
        """Reads any of the spellings; ValueError if it is none, or the name is taken."""
        if not _NAME.fullmatch(given):
            raise ValueError("use letters and digits, as in SpreadByRack or spread-by-rack")
        words = _WORDS.findall(given)
        plugin = "".join(word[0].upper() + word[1:] for word in words)
        lower = [word.lower() for word in words]
        module = "_".join(lower)
        if plugin in {line.partition(":")[2] for line in REGISTRY}:
            raise ValueError(f"{plugin} is a plugin of kube-scheduler; choose another name")
        if keyword.iskeyword(module) or module in ("kscheduler", "tests", "test"):
            raise ValueError(f"{module} cannot be the name of a module; choose another name")
        if place := _installed_module(module):
            raise ValueError(f"there is a module {module} already ({place}); choose another name")
        return cls(plugin, module, "-".join(lower))


def _installed_module(name: str) -> str:
    """Where a module of this name is that the new one would hide from others, or be hidden by; ""
    if there is none. A folder without code hides nothing.
    """
    found = importlib.util.find_spec(name)
    return (found.origin or "") if found else ""


def package_files(names: PluginNames) -> dict[str, str]:
    """The files of the package, by path."""
    spelled = {name: getattr(names, name) for name in names.__struct_fields__}
    return {
        Template(path).substitute(spelled): Template(text).substitute(spelled)
        for path, text in FILES.items()
    }


FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "kscheduler-$package"
version = "0.1.0"
description = "A plugin of kscheduler: $plugin"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["kscheduler", "msgspec", "numpy"]

[project.optional-dependencies]
test = ["pytest"]

# By this the scheduler finds the plugin; it runs where a profile names it.
[project.entry-points."kscheduler.plugins"]
$plugin = "$module:$plugin"

[tool.hatch.build.targets.wheel]
only-include = ["$module.py"]

[tool.pytest.ini_options]
pythonpath = ["."]
""",
    "$module.py": '''\
"""$plugin: no more than so many pods on a node, and the emptier the better.

Change it to your rule; docs/plugins of kscheduler tells what a plugin can do.
"""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from kscheduler.framework import (
    Action,
    ClusterEvent,
    CycleState,
    EventWithHint,
    NodesView,
    PluginHandle,
    PodView,
    Rejection,
    Scores,
    unschedulable,
)


class ${plugin}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments as they stand under pluginConfig, in camelCase there."""

    max_pods: int = 50


class $plugin:
    name = "$plugin"
    args_type = ${plugin}Args

    def __init__(self, args: ${plugin}Args, handle: PluginHandle) -> None:
        self._max_pods = args.max_pods

    def filter(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Iterator[Rejection]:
        """About all nodes at once: a mask has one boolean per node, True for those refused."""
        yield unschedulable(nodes.pod_count >= self._max_pods, "node(s) had too many pods")

    def score(self, cycle: CycleState, pod: PodView, nodes: NodesView) -> Scores:
        """About all feasible nodes at once: a number from 0 to 100 for each."""
        return 100 - 100 * np.minimum(nodes.pod_count, self._max_pods) // max(self._max_pods, 1)

    def events_to_register(self) -> list[EventWithHint]:
        """What may help a pod that was refused: a pod that goes, a node that comes."""
        return [
            EventWithHint(ClusterEvent("AssignedPod", Action.DELETE)),
            EventWithHint(ClusterEvent("Node", Action.ADD)),
        ]

    def sign(self, pod: PodView) -> Mapping[str, object]:
        """What of the pod the answers depend on: nothing, so that pods are decided together."""
        return {}
''',
    "tests/test_$module.py": '''\
"""$plugin, made and called as the scheduler does it."""

import pytest
from $module import $plugin

from kscheduler.framework import ConfigError
from kscheduler.testing import Stage, make_node, make_pod


def stage_of(**args):
    nodes = [make_node("empty"), make_node("busy")]
    running = [make_pod(f"p{i}", node="busy") for i in range(2)]
    return Stage($plugin, args=args, nodes=nodes, pods=running)


def test_a_full_node_is_refused():
    stage = stage_of(maxPods=2)
    assert stage.rejections(make_pod("p")) == {"busy": ["node(s) had too many pods"]}


def test_the_emptier_node_scores_higher():
    assert stage_of(maxPods=4).scores(make_pod("p")) == {"empty": 100, "busy": 50}


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="Expected"):
        stage_of(maxPods="many")
''',
    "scheduler.yaml": """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: $plugin
  pluginConfig:
  - name: $plugin
    args:
      maxPods: 50
""",
    "README.md": """\
# $plugin

A plugin of kscheduler.

    pip install -e '.[test]'                        # beside kscheduler
    pytest                                          # its tests
    kscheduler plugin list                          # is it found?
    kscheduler config validate scheduler.yaml       # are its arguments right?
    kscheduler sandbox --config scheduler.yaml      # on a cluster that is simulated
""",
}
