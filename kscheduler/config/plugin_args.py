"""Arguments of plugins: what their types have in common, and the pieces that several use.

The type of a plugin's arguments stands beside the plugin (`plugins`), with its fields, the defaults
that depend on feature gates or on other fields (`with_defaults`), and its rules (`errors`); the
plugin's declaration names it. Configuration finds it there by way of `catalog.Catalog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol, Self

from kscheduler.api.field_errors import FieldError, Path, invalid, required
from kscheduler.api.validation import label_key_errors
from kscheduler.config.wire import Int32, Model
from kscheduler.gotext.json_text import parse_json, plain


class Gates(Protocol):
    """Feature gates, as far as configuration needs them."""

    def enabled(self, name: str) -> bool: ...


class PluginArgs(Model):
    """Typed arguments of one plugin; the class is named like the kind, `<Plugin>Args`."""

    has_type_meta: ClassVar[bool] = True

    # Upstream's sentence when the plugin is built with arguments of another type. Each plugin has
    # its own, as its constructor writes it; this one is the most common.
    wrong_type: ClassVar[str] = "want args to be of type {want}, got {got}"
    # Whether the rules apply when a configuration is validated; they always do when the plugin is
    # built, and upstream leaves it at that for NodeResourcesFit.
    validated_with_file: ClassVar[bool] = True

    def with_defaults(self, gates: Gates) -> Self:
        """These arguments with everything filled in that is not a constant of a field."""
        return self

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        """Violated rules, in upstream's order; `path` leads to the arguments."""
        return iter(())


class RawArgs(Model):
    """Arguments of a plugin without a type of its own: unchecked JSON for the plugin to read."""

    text: str

    @property
    def value(self) -> object:
        return plain(parse_json(self.text.encode()))


class CoreModel(Model):
    """A type of the core API, which upstream's internal configuration uses as it is."""

    core_type: ClassVar[bool] = True


class UtilizationShapePoint(Model):
    """One point of a piecewise linear function: at this utilization (0..100), this score (0..10).

    NodeResourcesFit and VolumeBinding take lists of them.
    """

    utilization: Int32 = 0
    score: Int32 = 0


def shape_errors(shape: Sequence[UtilizationShapePoint], path: Path) -> Iterator[FieldError]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            detail = "values must be sorted in increasing order"
            yield invalid(path[i] / "utilization", shape[i].utilization, detail)
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            detail = "not in valid range [0, 100]"
            yield invalid(path[i] / "utilization", point.utilization, detail)
        if not 0 <= point.score <= 10:
            yield invalid(path[i] / "score", point.score, "not in valid range [0, 10]")


def label_name_errors(name: str, path: Path) -> Iterator[FieldError]:
    return (invalid(path, name, message) for message in label_key_errors(name))
