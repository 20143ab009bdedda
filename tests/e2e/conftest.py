"""The fixtures of `fixtures.py`, for the tests of this folder."""

from tests.e2e.fixtures import cluster, control_plane, priorities, run_folder, sandbox

__all__ = ["cluster", "control_plane", "priorities", "run_folder", "sandbox"]
