"""The embedded API server, as a process of its own."""

from tests.e2e.fixtures import sandbox

__all__ = ["sandbox"]
