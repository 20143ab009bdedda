"""A difference from the recording, and which parts of a recording can differ at all.

Plugins that are not built take no part in the replay; what they said is theirs.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kscheduler.plugins import not_built


class Mismatch(NamedTuple):
    """One difference; what it is not about is left empty."""

    pod: str
    node: str
    plugin: str
    what: str
    wanted: object
    got: object


# About which node and plugin ("" is none in particular), what, wanted, got.
Difference = tuple[tuple[str, str], str, object, object]


def differ(
    what: str, wanted: object, got: object, node: str = "", plugin: str = ""
) -> Iterator[Difference]:
    if wanted != got:
        yield (node, plugin), what, wanted, got


def is_ours(status: dict) -> bool:
    """Whether a status can be had without the plugins that are not built."""
    if status.get("plugin") in not_built():
        return False
    # PreFilter answers are combined into a sentence that names the plugins.
    return bool(status.get("plugin")) or all(map(_names_ours, status.get("reasons", ())))


def _names_ours(text: str) -> bool:
    return not any(name in text for name in not_built())


def says_ours(error: str) -> bool:
    return not any(f'"{name}"' in error for name in not_built())
