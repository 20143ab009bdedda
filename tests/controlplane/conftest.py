"""The control plane of this run, for those tests that look at the real one."""

from tests.controlplane.fixtures import control_plane, run_folder

__all__ = ["control_plane", "run_folder"]
