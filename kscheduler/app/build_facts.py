"""What runs here, as metrics tell it: build, versions, feature gates."""

from __future__ import annotations

import platform

from kscheduler.config.emulation import BINARY, COMPONENT, release_text
from kscheduler.config.feature_gates import FeatureGates, Stage
from kscheduler.metrics import Metrics
from kscheduler.version import KUBERNETES_VERSION, __version__


def record(metrics: Metrics, gates: FeatureGates) -> None:
    _record_build(metrics)
    emulation = gates.emulation
    metrics.version_info.labels(
        COMPONENT, str(BINARY), release_text(emulation.emulated), release_text(emulation.lowest)
    ).set(1)
    for name, state in gates.states().items():
        stage = "" if state.stage is Stage.GA else state.stage
        metrics.kubernetes_feature_enabled.labels(name, stage).set(int(state.enabled))


def _record_build(metrics: Metrics) -> None:
    """Go's labels, with what stands for them here."""
    major, minor = BINARY.release
    metrics.kubernetes_build_info.labels(
        str(major),
        str(minor),
        KUBERNETES_VERSION,
        f"kscheduler-{__version__}",
        "",
        "",
        f"python{platform.python_version()}",
        platform.python_implementation(),
        f"{platform.system().lower()}/{platform.machine()}",
    ).set(1)
