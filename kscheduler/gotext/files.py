"""Local files, with failures in Go's words."""

import errno
import os
from pathlib import Path

from kscheduler.errors import ConfigError


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        verb = "read" if error.errno == errno.EISDIR else "open"
        raise ConfigError(f"{verb} {path}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """The system's words, in lower case as Go prints them: `no such file or directory`."""
    text = os.strerror(error.errno or 0)
    return text[:1].lower() + text[1:]
