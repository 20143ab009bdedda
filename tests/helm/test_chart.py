"""The chart of deploy/helm: the objects of kustomize, and a release that comes and goes."""

import os
import re
import shutil
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kscheduler.version import __version__
from tests.controlplane.binaries import MissingProgramError, program
from tests.helm.programs import helm
from tests.kit.polling import block_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "kscheduler"
# Our build of helm does not know which Kubernetes it was made for.
KUBERNETES = ("--kube-version", "1.37.0")
# Labels and an annotation that helm's users expect, and kustomize's have no use for.
OF_RELEASES = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "checksum/config",
    "helm.sh/chart",
}


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def chart():
    """The program, asked with its own folder for what it keeps."""
    found = helm()
    if found is None:
        pytest.skip("helm, which `make helm` builds")
    return found


@pytest.fixture(scope="module")
def kubectl():
    try:
        return program("kubectl")
    except MissingProgramError:
        found = shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl on PATH")
    return found


def rendered(chart, *settings, release="kscheduler", namespace="kscheduler"):
    text = run(chart, "template", release, CHART, "-n", namespace, *KUBERNETES, *settings)
    return [one for one in yaml.safe_load_all(text) if one]


def comparable(objects):
    """By kind and name, without what only one of the two programs adds."""
    found = {}
    for one in objects:
        metadata = one["metadata"]
        if one["kind"] == "ConfigMap":
            one["data"] = {name: yaml.safe_load(text) for name, text in one["data"].items()}
        # Of a budget kustomize labels the selector only where the base has it.
        metadata.get("labels", {}).pop("app.kubernetes.io/component", None)
        if one["kind"] == "NetworkPolicy":
            # kustomize's namespace is the scheduler's own; a release may share its.
            one["spec"]["podSelector"] = {}
        plain = _plain(one)
        found[one["kind"], plain["metadata"]["name"]] = plain
    return found


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in OF_RELEASES}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    # kustomize names a ConfigMap after its content, too.
    return (
        re.sub(r"^(kscheduler-config)-\w{10}$", r"\1", value) if isinstance(value, str) else value
    )


@pytest.mark.parametrize(("replicas", "overlay"), [(1, "single"), (2, "ha")])
def test_the_chart_has_the_objects_of_kustomize(chart, kubectl, replicas, overlay):
    text = run(kubectl, "kustomize", ROOT / "deploy" / "overlays" / overlay)
    settings = ("--set", f"namespace.create=true,replicas={replicas}")
    assert comparable(rendered(chart, *settings)) == comparable(yaml.safe_load_all(text))


def test_a_release_keeps_to_its_own_name_and_namespace(chart):
    objects = rendered(chart, release="second", namespace="apart")
    shared = {"kube-system"}  # which tells whose certificates to believe
    assert {one["metadata"].get("namespace", "apart") for one in objects} == {"apart"} | shared
    assert all(one["metadata"]["name"].startswith("second") for one in objects)
    by_kind = {one["kind"]: one for one in objects}
    config = yaml.safe_load(by_kind["ConfigMap"]["data"]["scheduler.yaml"])
    assert config["leaderElection"] == {
        "leaderElect": True,
        "resourceName": "second",
        "resourceNamespace": "apart",
    }
    rules = [rule for one in objects if one["kind"] == "Role" for rule in one["rules"]]
    named = [rule.get("resourceNames") for rule in rules]
    assert ["second"] in named
    bindings = [one for one in objects if one["kind"].endswith("Binding")]
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == ("second", "apart")
    assert "second" in {one["roleRef"]["name"] for one in bindings}


def test_settings_arrive(chart, tmp_path):
    values = tmp_path / "values.yaml"
    digest = f"sha256:{'0' * 64}"
    values.write_text(
        yaml.safe_dump(
            {
                "image": {"repository": "registry.example/mine", "digest": digest},
                "config": {"parallelism": 4, "leaderElection": {"resourceName": "other"}},
                "extraArgs": ["--plugin=/plugins/mine.py:Mine"],
                "rbac": {"extraRules": [{"apiGroups": [""], "resources": ["x"], "verbs": ["get"]}]},
            }
        )
    )
    objects = {(one["kind"], one["metadata"]["name"]): one for one in rendered(chart, "-f", values)}
    (container,) = objects["Deployment", "kscheduler"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example/mine@{digest}"
    assert container["args"][-1] == "--plugin=/plugins/mine.py:Mine"
    config = yaml.safe_load(objects["ConfigMap", "kscheduler-config"]["data"]["scheduler.yaml"])
    assert config["parallelism"] == 4
    assert config["profiles"] == [{"schedulerName": "kscheduler"}]
    lease = objects["Role", "kscheduler-leader-election"]["rules"]
    assert ["other"] in [rule.get("resourceNames") for rule in lease]
    assert objects["ClusterRole", "kscheduler"]["rules"][-1]["resources"] == ["x"]


def test_a_setting_that_does_not_exist_is_refused(chart):
    done = subprocess.run(
        [chart, "template", "x", CHART, *KUBERNETES, "--set", "replica=2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "replica" in done.stderr


def test_the_chart_is_sound_and_packs_what_it_links_to(chart, tmp_path):
    run(chart, "lint", "--strict", CHART)
    run(chart, "package", CHART, "-d", tmp_path)
    packed = tmp_path / f"kscheduler-{__version__}.tgz"
    text = run(chart, "template", "x", packed, *KUBERNETES)
    assert "pods/binding" in text


class Release:
    """One release on one cluster."""

    def __init__(self, chart, kubectl, kubeconfig, folder):
        self._helm, self._kubectl, self._kubeconfig = chart, kubectl, kubeconfig
        self.name = self.namespace = f"chart-{uuid.uuid4().hex[:8]}"
        self._env = {**os.environ, "HOME": str(folder)}

    def helm(self, verb, *args):
        options = ("--kubeconfig", self._kubeconfig, "-n", self.namespace)
        return run(self._helm, verb, *options, *args, env=self._env)

    def kubectl(self, *args):
        return run(self._kubectl, "--kubeconfig", self._kubeconfig, *args, env=self._env)

    def live(self, *kinds):
        """Objects of the release that are there, as kind/name."""
        selector = f"app.kubernetes.io/instance={self.name}"
        wanted = ",".join(kinds)
        said = self.kubectl("get", wanted, "-A", "-l", selector, "-o", "name")
        return {line.rpartition("/")[2] for line in said.splitlines()}


@contextmanager
def installed(release, *settings):
    """Installed, then upgraded to two replicas; and uninstalled without a trace."""
    kinds = ("serviceaccounts", "deployments", "services", "clusterroles", "rolebindings")
    release.helm("install", release.name, CHART, "--create-namespace", *settings)
    assert {release.name, f"{release.name}-metrics-reader"} <= release.live(*kinds)
    assert release.live("poddisruptionbudgets") == set()
    release.helm("upgrade", release.name, CHART, *settings, "--set", "replicas=2")
    assert release.live("poddisruptionbudgets") == {release.name}
    deployment = ("get", "deployment", release.name, "-n", release.namespace)
    assert release.kubectl(*deployment, "-o", "jsonpath={.spec.replicas}") == "2"
    yield
    release.helm("uninstall", release.name)
    assert release.live(*kinds, "poddisruptionbudgets", "configmaps") == set()


def test_the_chart_is_installed_on_a_real_api_server(chart, kubectl, control_plane, tmp_path):
    release = Release(chart, kubectl, control_plane / "kubeconfig", tmp_path)
    account = f"system:serviceaccount:{release.namespace}:{release.name}"
    with installed(release):
        for allowed in (
            ("create", "pods", "--subresource=binding", "-A"),
            ("watch", "nodes"),
            ("update", f"leases/{release.name}", "-n", release.namespace),
        ):
            assert release.kubectl("auth", "can-i", "--as", account, *allowed).startswith("yes")


def test_the_chart_is_installed_on_the_sandbox(chart, kubectl, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    program_of_ours = "from kscheduler.cli import main; main()"
    flags = ("sandbox", "--server-only", "--nodes=1", f"--kubeconfig={kubeconfig}")
    sandbox = subprocess.Popen(
        [sys.executable, "-c", program_of_ours, *flags], stdout=subprocess.DEVNULL
    )
    try:
        block_until(lambda: kubeconfig.exists() or sandbox.poll() is not None)
        release = Release(chart, kubectl, kubeconfig, tmp_path)
        # The sandbox has no networks, and so no policies about them.
        with installed(release, "--set", "networkPolicy.enabled=false"):
            pass
    finally:
        sandbox.terminate()
        sandbox.wait()
