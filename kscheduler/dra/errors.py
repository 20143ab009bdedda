"""Errors of device allocation.

KschedulerError
├── AllocationError        the claims, classes or slices are at fault; aborts the attempt
└── SearchTimeout          the search took longer than it may
"""

from kscheduler.errors import KschedulerError


class AllocationError(KschedulerError):
    """Raised for input that cannot be allocated on any terms; the text is upstream's."""


class SearchTimeout(KschedulerError):  # noqa: N818  upstream's word for it
    """Raised when a search passes its deadline."""
