"""The small tree of errors that mean "the world failed".

KschedulerError
├── ConfigError            the configuration file, a flag or a gate is wrong
├── MissingError           what was to be changed is not there (any more)
├── ConflictError          what was to be changed has been changed by another meanwhile
└── ApiError               the API server answered with a failure (see client.errors)
"""


class KschedulerError(Exception):
    """Something outside went wrong; the text is fit to be shown to the user.

    `unsettled` is whether what was asked for may have been done, or be done yet.
    """

    unsettled: bool = False


class MissingError(KschedulerError):
    """Raised for an object that is gone; who wanted it gone has no reason to complain."""


class ConflictError(KschedulerError):
    """Raised for a change made from an old version; made from the latest one it may go through."""


class ConfigError(KschedulerError):
    """Flags, gates or configuration cannot be used; the text is kube-scheduler's own."""
