"""Reading what was logged."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

from kscheduler import logs


class Log(io.BytesIO):
    """A log in memory, whole or by lines."""

    @property
    def text(self) -> str:
        return self.getvalue().decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)

    @property
    def messages(self) -> list[str]:
        """Lines without their header: severity, time, process and place in the source."""
        return [line.partition("] ")[2] for line in self.text.splitlines()]


@contextmanager
def captured_log(verbosity: int = 0) -> Iterator[Log]:
    """Everything that is logged in the block, in klog's format."""
    log = Log()
    logs.configure(logs.Logging(verbosity=verbosity), stderr=log)
    try:
        yield log
    finally:
        logs.configure(logs.Logging())
