"""Files named in flags and configuration, with Go's words for those that cannot be read."""

from __future__ import annotations

from kscheduler.errors import ConfigError


def read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except IsADirectoryError as error:
        raise ConfigError(f"read {path}: is a directory") from error
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or str(error)).lower()}") from error
