"""What deploy/ holds agrees with the daemon it deploys."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kscheduler.api.explanation import GROUP, VERSION
from kscheduler.metrics import Metrics
from kscheduler.serving.explanation.resources import RESOURCES
from kscheduler.version import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD = DEPLOY / "monitoring" / "dashboard.json"
ALERTS = DEPLOY / "monitoring" / "alerts.yaml"

# What Prometheus itself adds.
FROM_PROMETHEUS = {"up"}
METRIC = re.compile(r"\b([a-z][a-z0-9_]*)\{job=")


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def deployment() -> dict[str, Any]:
    (found,) = documents(DEPLOY / "base" / "deployment.yaml")
    return found["spec"]["template"]["spec"]


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    (rules,) = documents(ALERTS)
    return [target["expr"] for panel in panels for target in panel.get("targets", ())] + [
        rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]
    ]


def test_dashboard_and_alerts_ask_only_for_metrics_the_daemon_has():
    known = FROM_PROMETHEUS | set(sample_names(Metrics()))
    asked = {name for expression in expressions() for name in METRIC.findall(expression)}

    assert len(asked) > 15
    assert asked <= known, asked - known


def sample_names(metrics: Metrics) -> Iterator[str]:
    for name in (*metrics.families, *(one.name for one in metrics.registry.collect())):
        yield from (f"{name}{end}" for end in ("", "_total", "_bucket", "_sum", "_count"))


def test_the_image_tag_is_the_version():
    (kustomization,) = documents(DEPLOY / "base" / "kustomization.yaml")

    assert [image["newTag"] for image in kustomization["images"]] == [__version__]
    assert f"kscheduler:{__version__}" in (DEPLOY / "Dockerfile").read_text()


def test_the_deployed_configuration_is_valid():
    config = DEPLOY / "base" / "scheduler.yaml"
    command = [sys.executable, str(ROOT / "cmd" / "kscheduler"), "config", "validate", str(config)]

    subprocess.run(command, check=True)


def test_the_lease_is_the_one_that_rbac_names():
    (config,) = documents(DEPLOY / "base" / "scheduler.yaml")
    election = config["leaderElection"]
    role = next(d for d in documents(DEPLOY / "base" / "rbac.yaml") if d["kind"] == "Role")
    named = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]

    assert named == [[election["resourceName"]]]
    assert role["metadata"]["namespace"] == election["resourceNamespace"]


def test_the_container_can_do_nothing_it_need_not():
    spec = deployment()
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


def test_probes_ask_the_port_that_is_served():
    (container,) = deployment()["containers"]
    (port,) = container["ports"]

    assert port["containerPort"] == 10259
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["port"], asked["scheme"]) == (port["name"], "HTTPS")


def test_the_scheduler_does_not_wait_for_itself_to_be_placed():
    (config,) = documents(DEPLOY / "base" / "scheduler.yaml")
    ours = {profile["schedulerName"] for profile in config["profiles"]}

    assert deployment()["schedulerName"] not in ours


@pytest.mark.parametrize(
    "path", ["base/rbac.yaml", "base/explanation.yaml", "components/aggregated-api/rbac.yaml"]
)
def test_no_rule_gives_everything(path):
    for document in documents(DEPLOY / path):
        for rule in document.get("rules", ()):
            given = rule.get("resources", []) + rule["verbs"] + rule.get("apiGroups", [])
            assert "*" not in given
            assert "secrets" not in given


def test_roles_let_do_all_that_is_served():
    served = {resource.plural: resource.verbs for resource in RESOURCES}
    named = [
        (resource, set(rule["verbs"]))
        for document in documents(DEPLOY / "base" / "explanation.yaml")
        for rule in document["rules"]
        for resource in rule["resources"]
        if rule["apiGroups"] == [GROUP]
    ]
    assert {resource for resource, _ in named} == served.keys()
    assert all(verbs >= {*served[resource]} for resource, verbs in named)


def test_the_aggregated_api_is_the_one_that_is_served_by_a_verified_server():
    component = DEPLOY / "components" / "aggregated-api"
    (registration,) = documents(component / "apiservice.yaml")
    (service,) = documents(component / "service.yaml")
    spec = registration["spec"]

    assert (spec["group"], spec["version"]) == (GROUP, VERSION)
    assert registration["metadata"]["name"] == f"{VERSION}.{GROUP}"
    assert "insecureSkipTLSVerify" not in spec
    about = service["metadata"]
    assert (spec["service"]["namespace"], spec["service"]["name"]) == (
        about["namespace"],
        about["name"],
    )
    # The leader writes its endpoints, and the name in its certificate is the Service's.
    assert "selector" not in service["spec"]
    kustomization = (component / "kustomization.yaml").read_text()
    assert f"--leader-service={about['namespace']}/{about['name']}" in kustomization
    assert f"subjectAltName=DNS:{about['name']}.{about['namespace']}.svc " in kustomization


def test_every_dependency_is_locked_with_hashes_at_a_version_we_accept():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = dict[str, str]()
    entries = re.split(r"\n(?=[a-z])", (DEPLOY / "requirements.lock").read_text())
    for entry in entries:
        if pinned := re.match(r"([A-Za-z0-9._-]+)==([^ ;]+)", entry):
            assert "--hash=sha256:" in entry, entry
            locked[canonicalize_name(pinned[1])] = pinned[2]
    for line in project["dependencies"]:
        wanted = Requirement(line)
        assert locked[canonicalize_name(wanted.name)] in wanted.specifier, line
