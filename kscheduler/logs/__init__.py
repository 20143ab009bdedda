"""klog's lines from Python calls: text or JSON, verbosity per module, and never in the way.

A module keeps one `log = logs.logger(__name__)` and says

    log.info("Wrote configuration", file=path)           I… "Wrote configuration" file="out.yaml"
    log.v(2).info("Bound pod", pod=ref(pod), node=name)  nothing below -v=2, and then cheap
    log.error(err, "command failed")                     E… "command failed" err="…"
    log.unhandled(err, "Error updating pod")             E… "Error updating pod" err="…"
                                                            logger="UnhandledError"
    log.text_warning("Neither …")                        W… Neither …

`if v := log.v(5): …` spares the arguments too. A call becomes a `Record`, `lines` makes it text,
a `stream` takes it. A line is one write, and no write waits for a reader.
"""

import atexit
import fnmatch
import logging
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Protocol

import msgspec
from msgspec.structs import replace

from kscheduler.logs.lines import ObjectRef, Record, json_line, text_line
from kscheduler.logs.stream import FileStream

__all__ = [
    "FileStream",
    "Logger",
    "Logging",
    "ObjectRef",
    "Sink",
    "Verbose",
    "configure",
    "flush",
    "flush_regularly",
    "logger",
    "ref",
    "set_verbosity",
]

MAX_INFO_BUFFER_BYTES = 2 << 30

# From this -v on, upstream's framework names the extension point and plugin that logs.
NAMES_FROM = 4
# The logger of errors that no caller could handle, as apimachinery's runtime.HandleError says.
UNHANDLED = "UnhandledError"


class Sink(Protocol):
    """A destination of finished lines."""

    def write(self, line: bytes, /) -> object: ...
    def flush(self) -> object: ...


class Logging(msgspec.Struct, frozen=True):
    """Values of --logging-format, -v, --vmodule and the --log-* flags."""

    format: str = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    flush_frequency_seconds: float = 5.0
    split_stream: bool = False
    info_buffer_bytes: int = 0


class _Output:
    """The process's one logging configuration and the streams behind it."""

    def __init__(self) -> None:
        self.settings = Logging()
        self.errors: Sink = FileStream(2)
        self.infos: Sink = self.errors
        self.render = text_line

    def emit(self, record: Record) -> None:
        line = self.render(record).encode("utf-8", "backslashreplace")
        # A warning is an error to klog's text router and information to zap.
        informs = "IW" if self.render is json_line else "I"
        (self.infos if record.severity in informs else self.errors).write(line)

    def flush(self) -> None:
        self.infos.flush()
        self.errors.flush()


class Verbose:
    """`log.v(n)` when n is on: what it says carries its level in JSON."""

    __slots__ = ("_level", "_logger")

    def __init__(self, logger: "Logger", level: int) -> None:
        self._logger = logger
        self._level = level

    def __bool__(self) -> bool:
        return True

    def info(self, message: str, /, **values: object) -> None:
        self._logger.emit("I", self._level, sys._getframe(1), message, values)

    def text_info(self, line: str, /) -> None:
        self._logger.emit("I", self._level, sys._getframe(1), line, None)


class _Silent(Verbose):
    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def info(self, message: str, /, **values: object) -> None:
        pass

    def text_info(self, line: str, /) -> None:
        pass


class Logger:
    """The voice of one module; `threshold` is the verbosity that -v and --vmodule give it.

    `shown_name` is the value of the "logger" key: `name` from -v=4 on, else none.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module = module.rpartition(".")[2]
        self.threshold = 0
        self.name = name
        self.shown_name = ""
        self._verbose: dict[int, Verbose] = {}

    def v(self, level: int) -> Verbose:
        if level > self.threshold:
            return _SILENT
        if level not in self._verbose:
            self._verbose[level] = Verbose(self, level)
        return self._verbose[level]

    def info(self, message: str, /, **values: object) -> None:
        self.emit("I", 0, sys._getframe(1), message, values)

    def error(self, err: object, message: str, /, **values: object) -> None:
        """`err` is the exception or its text; None when the message says it all."""
        self.emit("E", 0, sys._getframe(1), message, values, err)

    def unhandled(self, err: object, message: str, /, **values: object) -> None:
        """An error that ends here: upstream's utilruntime.HandleError and its relatives."""
        name = f"{self.shown_name}.{UNHANDLED}" if self.shown_name else UNHANDLED
        self.emit("E", 0, sys._getframe(1), message, values, err, name)

    def text_info(self, line: str, /) -> None:
        self.emit("I", 0, sys._getframe(1), line, None)

    def text_warning(self, line: str, /) -> None:
        self.emit("W", 0, sys._getframe(1), line, None)

    def text_error(self, line: str, /) -> None:
        self.emit("E", 0, sys._getframe(1), line, None)

    def emit(
        self,
        severity: str,
        level: int,
        caller: FrameType,
        message: str,
        values: Mapping[str, object] | None,
        err: object = None,
        name: str | None = None,
    ) -> None:
        file, line = caller.f_code.co_filename, caller.f_lineno
        name = self.shown_name if name is None else name
        _output.emit(Record(severity, level, file, line, message, values, err, name))


class _LibraryLines(logging.Handler):
    """Lines of libraries that use Python's own logging, in our format and stream."""

    def emit(self, record: logging.LogRecord) -> None:
        severity = "E" if record.levelno >= logging.ERROR else "W"
        text = self.format(record)
        _output.emit(Record(severity, 0, record.pathname, record.lineno, text, None, None, ""))


class _Metadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...


class _Named(Protocol):
    @property
    def metadata(self) -> _Metadata: ...


def ref(obj: _Named | None) -> ObjectRef:
    """The object as log lines name it: namespace/name."""
    return (
        ObjectRef("", "") if obj is None else ObjectRef(obj.metadata.namespace, obj.metadata.name)
    )


_SILENT = _Silent.__new__(_Silent)
_output = _Output()
_loggers: dict[tuple[str, str], Logger] = {}
_library_lines = _LibraryLines(logging.WARNING)


def logger(module: str, name: str = "") -> Logger:
    """The logger of a module; `name` is the extension point, and perhaps the plugin, for which it
    speaks. As upstream, lines carry it (as "logger") from -v=4 on only.
    """
    key = (module, name)
    if key not in _loggers:
        _loggers[key] = Logger(module, name)
        _set_threshold(_loggers[key])
    return _loggers[key]


def configure(settings: Logging, *, stderr: Sink | None = None, stdout: Sink | None = None) -> None:
    """Applies the flags; a second call replaces the first. Without sinks, descriptors 1 and 2."""
    _output.flush()
    _output.errors = stderr or FileStream(2)
    _output.infos = _output.errors
    if settings.split_stream:
        buffer_bytes = min(settings.info_buffer_bytes, MAX_INFO_BUFFER_BYTES)
        _output.infos = stdout or FileStream(1, buffer_bytes)
    _output.render = json_line if settings.format == "json" else text_line
    if _library_lines not in logging.root.handlers:
        logging.root.addHandler(_library_lines)
    _apply(settings)


def set_verbosity(level: int) -> None:
    """Changes -v while running."""
    _apply(replace(_output.settings, verbosity=level))


def _apply(settings: Logging) -> None:
    _output.settings = settings
    for one in _loggers.values():
        _set_threshold(one)


def _set_threshold(one: Logger) -> None:
    settings = _output.settings
    # Go negates a set of characters with ^, fnmatch with !.
    matching = (
        level
        for pattern, level in settings.vmodule
        if fnmatch.fnmatchcase(one.module, pattern.replace("[^", "[!"))
    )
    one.threshold = max(settings.verbosity, next(matching, 0))
    one.shown_name = one.name if settings.verbosity >= NAMES_FROM else ""


def flush() -> None:
    _output.flush()


async def flush_regularly() -> None:
    """Writes buffered lines every --log-flush-frequency, until cancelled."""
    import asyncio  # here, because it costs every short command 50 ms

    while True:
        await asyncio.sleep(_output.settings.flush_frequency_seconds)
        _output.flush()


@atexit.register
def _flush_at_exit() -> None:
    for sink in (_output.infos, _output.errors):
        if isinstance(sink, FileStream):
            sink.flush(wait_seconds=1.0)
