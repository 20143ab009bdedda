"""JSON text cut off below a depth, without a parser that recurses.

msgspec descends even into what it skips, and gives up some 1,000 levels deep (fewer the more the
caller has on its stack). An API server admits 10,000 levels in what is a driver's own business.
This is for the second look at such a text: it counts brackets outside of strings, about 10 ns a
byte.
"""

from typing import NamedTuple

import numpy as np

from kscheduler.errors import KschedulerError

# Deeper than any field of the API, shallower than anybody's stack is short.
READ_DEPTH = 64
# Working memory is about 10 bytes per byte of a block.
BLOCK_BYTES = 1 << 20

_QUOTE = ord('"')
_STEP = np.zeros(256, np.int8)
_STEP[[ord("{"), ord("[")]] = 1
_STEP[[ord("}"), ord("]")]] = -1


class UnbalancedError(KschedulerError):
    """Brackets that open and close do not match: the text is no JSON."""


class Outline(NamedTuple):
    """A text in which `parts` are replaced by their numbers: part 0 is `0`, part 1 is `1`."""

    text: bytes
    parts: list[bytes]


def outline(data: bytes | bytearray | memoryview | str, depth: int = READ_DEPTH) -> Outline:
    """Every object and array within `depth` others, set aside.

    What it makes of a text that is no JSON is no JSON either, or not as long as its parts are.
    """
    text = data.encode() if isinstance(data, str) else bytes(data)
    begins, ends = _places(text, depth)
    pieces, parts, at = [], [], 0
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        pieces += [text[at:begin], b"%d" % number]
        at = end + 1
        parts.append(text[begin:at])
    return Outline(b"".join([*pieces, text[at:]]), parts)


def _places(text: bytes, depth: int) -> tuple[list[int], list[int]]:
    """Where something begins and ends that has `depth` others around it."""
    # Escaped backslashes first: the quote behind two of them ends its string.
    plain = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    begins: list[int] = []
    ends: list[int] = []
    quotes = level = lowest = 0
    for start in range(0, len(plain), BLOCK_BYTES):
        codes = np.frombuffer(plain, np.uint8, min(BLOCK_BYTES, len(plain) - start), start)
        in_string = (np.cumsum(codes == _QUOTE, dtype=np.uint8) + np.uint8(quotes)) & 1
        step = _STEP[codes]
        step[in_string == 1] = 0
        levels = np.cumsum(step, dtype=np.int64) + level
        begins += (np.flatnonzero((step > 0) & (levels == depth + 1)) + start).tolist()
        ends += (np.flatnonzero((step < 0) & (levels == depth)) + start).tolist()
        quotes, level = int(in_string[-1]), int(levels[-1])
        lowest = min(lowest, int(levels.min()))
    if level or quotes or lowest < 0:
        raise UnbalancedError("brackets or quotes do not match")
    return begins, ends
