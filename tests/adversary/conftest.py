"""Clusters for the few inputs that are tried on a server in every run of the tests."""

from tests.e2e.fixtures import cluster, control_plane, run_folder, sandbox

__all__ = ["cluster", "control_plane", "run_folder", "sandbox"]
