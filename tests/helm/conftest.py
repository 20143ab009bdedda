"""The control plane of this run, for the test that installs the chart on it."""

from tests.controlplane.fixtures import control_plane, run_folder

__all__ = ["control_plane", "run_folder"]
