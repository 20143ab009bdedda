"""The fixtures of `fixtures.py`, for the tests of this folder."""

from tests.e2e.fixtures import cluster, control_plane, priorities, run_folder, sandbox
from tests.e2e.pair import pair

__all__ = ["cluster", "control_plane", "pair", "priorities", "run_folder", "sandbox"]
