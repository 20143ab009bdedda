"""The examples of docs/plugins: their own tests, and each as a package that is merely installed."""

import asyncio
import importlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.integration.cluster import pod, program
from tests.kit.manifests import node_manifest
from tests.kit.polling import until

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "docs/plugins"


def wheel(example: Path, folder: Path) -> Path:
    """What a build backend would make of the example; making it needs no network."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    entries = project["entry-points"]["kscheduler.plugins"]
    lines = "".join(f"{key} = {value}\n" for key, value in entries.items())
    made = folder / f"{name}-{version}-py3-none-any.whl"
    facts = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(made, "w") as files:
        for module in example.glob("*.py"):
            files.write(module, module.name)
        about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
        files.writestr(f"{facts}/METADATA", about)
        files.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        files.writestr(f"{facts}/entry_points.txt", f"[kscheduler.plugins]\n{lines}")
        files.writestr(f"{facts}/RECORD", "")
    return made


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs an example into a folder of its own; what runs afterwards finds it there."""
    folder = tmp_path / "site"

    def install(example):
        made = wheel(EXAMPLES / example, tmp_path)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        command += ["--disable-pip-version-check", "--target", str(folder), str(made)]
        subprocess.run(command, check=True)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", str(folder))
        importlib.invalidate_caches()
        return yaml.safe_load((EXAMPLES / example / "scheduler.yaml").read_text())["profiles"]

    return install


@pytest.mark.parametrize("example", ["node-load", "gang"])
def test_an_example_passes_its_own_tests(example):
    folder = EXAMPLES / example
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


async def test_node_load_as_a_package_of_its_own_in_a_process_of_its_own(cluster, installed):
    profiles = installed("node-load")
    loads = {"n1": "80", "n2": "5", "n3": "60"}
    cluster.create(
        *yaml.safe_load_all((EXAMPLES / "node-load/rbac.yaml").read_text()),
        *(node_manifest(name) for name in loads),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "node-load", "namespace": "kube-system"},
            "data": loads,
        },
    )
    async with program(cluster.arguments(profiles=profiles)):
        cluster.create(*(pod(f"p{i}") for i in range(5)))
        await until(lambda: not cluster.waiting())
    assert set(cluster.places().values()) == {"n2"}


async def test_a_gang_as_a_package_of_its_own(cluster, installed):
    profiles = installed("gang")
    labels = {"example.com/gang": "g", "example.com/gang-size": "3"}
    cluster.create(node_manifest("n1"), node_manifest("n2"))
    async with cluster.scheduler(profiles=profiles) as running:
        cluster.create(pod("a", labels=labels), pod("b", labels=labels), pod("alone"))
        waiting = running.daemon.scheduler.frameworks["default-scheduler"]._handle.waiting_pods
        await until(lambda: len(waiting) == 2)
        await until(lambda: cluster.place("alone"))
        assert sorted(cluster.waiting()) == ["a", "b"]
        cluster.create(pod("c", labels=labels))
        await until(lambda: not cluster.waiting())
        done = ("GangComplete", "All 3 pods of g have a node")
        await until(lambda: done in cluster.events("c"))


async def test_half_a_gang_gives_its_room_back(cluster, installed):
    profiles = installed("gang")
    profiles[0]["pluginConfig"][0]["args"]["waitSeconds"] = 0.3
    labels = {"example.com/gang": "g", "example.com/gang-size": "3"}
    cluster.create(node_manifest("n1", cpu="1"))
    async with cluster.scheduler(profiles=profiles):
        cluster.create(*(pod(name, cpu="400m", labels=labels) for name in ("a", "b")))
        late = "rejected due to timeout after waiting 300ms at plugin Gang"
        along = "pod default/{} of gang g gave up"
        late, *others = (
            f"0/1 nodes are available: 1 {text}."
            for text in (late, along.format("a"), along.format("b"))
        )

        def told():
            return {cluster.complaint("a"), cluster.complaint("b")}

        # They are tried again and give up again, and what is told of one may be of another time.
        await until(lambda: late in told() and told() <= {late, *others})
        cluster.create(pod("big", cpu="900m"))
        await until(lambda: cluster.place("big"))


async def test_what_is_installed_but_not_configured_is_not_even_imported(cluster, installed):
    installed("gang")
    sys.modules.pop("gang", None)
    async with cluster.scheduler():
        await asyncio.sleep(0)
        assert "gang" not in sys.modules
