"""A difference from the recording."""

from collections.abc import Iterator
from typing import NamedTuple


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
