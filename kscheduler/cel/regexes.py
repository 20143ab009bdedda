"""Regular expressions of expressions, by RE2: time linear in the text whatever the pattern.

Mirrors Go's regexp. Differs: RE2's own parser decides; where its words differ from Go's they are
rewritten, and rare patterns that only one of the two accepts are listed in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import getsizeof
from typing import Any

import re2

from kscheduler.caches import BoundedCache
from kscheduler.cel.frame import Frame

# Memory that RE2 may take for a pattern and its automata: usual ones get by with the first.
_USUAL_MEMORY, _MOST_MEMORY = 256 << 10, 8 << 20
_TOO_LARGE = "pattern too large - compile failed"
# Instructions that a pattern is taken to have if it is too large.
_MOST_INSTRUCTIONS = 120_000
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")


def _options(memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    return options


class PatternError(Exception):
    """Raised for a pattern that is no regular expression, with Go's words."""


class Pattern:
    """A compiled pattern.

    `size` is the number of its instructions: searching takes at most some 10 ns per instruction and
    character. `memory` is what it may come to take, in bytes.
    """

    __slots__ = ("_compiled", "memory", "size", "text")

    def __init__(self, text: str, compiled: Any, memory: int) -> None:
        self.text = text
        self.size: int = compiled.programsize
        self.memory = memory
        self._compiled = compiled

    def search(self, f: Frame, text: str) -> bool:
        """Whether the pattern occurs in the text.

        The binding takes about ten microseconds per search, and devices have few distinct values,
        so what was found is kept.
        """
        f.touch(len(text) * self.size >> 6)
        key = (self.text, text)
        found = _searched.get(key)
        if found is None:
            found = self._compiled.search(text) is not None
            _searched.put(key, found, getsizeof(key) + getsizeof(self.text) + getsizeof(text))
        return found

    def find(self, f: Frame, text: str) -> str:
        """The first occurrence, or the empty string."""
        self._touch(f, text)
        found = self._compiled.search(text)
        return "" if found is None else str(found.group())

    def find_all(self, f: Frame, text: str, limit: int = -1) -> list[str]:
        """Occurrences from the left, at most `limit` of them if that is not negative.

        An empty match right after the previous match does not count, as in Go.
        """
        results: list[str] = []
        previous_end = -1
        for start, end in self._spans(f, text):
            if 0 <= limit <= len(results):
                break
            if start == end == previous_end:
                continue
            results.append(text[start:end])
            previous_end = end
        return results

    def _spans(self, f: Frame, text: str) -> Iterator[tuple[int, int]]:
        self._touch(f, text)
        for found in self._compiled.finditer(text):
            # Each match is a search of its own in the binding.
            f.touch(_SEARCH)
            yield found.span()

    def _touch(self, f: Frame, text: str) -> None:
        f.touch(len(text) * self.size >> 6)


# In units of Frame.touch: a search with nothing to do, and the compilation of a pattern.
_SEARCH, _COMPILATION = 20, 200
_patterns: BoundedCache[str, Pattern | str] = BoundedCache("cel_patterns", 32 << 20)
_searched: BoundedCache[tuple[str, str], bool] = BoundedCache("cel_searches", 4 << 20)
CACHES = (_patterns, _searched)


def compile_pattern(f: Frame, text: str) -> Pattern:
    """The compiled pattern; raises PatternError.

    It is counted as if it were not known yet, so that no outcome depends on what else was asked.
    """
    found = _patterns.get(text)
    if found is None:
        found = _compiled(text)
        memory = found.memory if isinstance(found, Pattern) else 2 * len(found)
        _patterns.put(text, found, memory + getsizeof(text))
    if isinstance(found, str):
        f.touch(2 * _MOST_INSTRUCTIONS if _TOO_LARGE in found else _COMPILATION + len(text))
        raise PatternError(found)
    f.touch(_COMPILATION + 2 * found.size)
    return found


def _compiled(text: str) -> Pattern | str:
    """The pattern, or what is wrong with it."""
    if "\\C" in re.sub(r"\\\\", "", text):
        return "error parsing regexp: invalid escape sequence: `\\C`"
    written = _NAMED_GROUP.sub("(?P<", text)
    try:
        try:
            return Pattern(text, re2.compile(written, _options(_USUAL_MEMORY)), _USUAL_MEMORY)
        except re2.error as error:
            if _TOO_LARGE not in _reason(error):
                raise
            return Pattern(text, re2.compile(written, _options(_MOST_MEMORY)), _MOST_MEMORY)
    except re2.error as error:
        return _go_words(text, _reason(error))
    finally:
        # The binding would keep the last 128 patterns, however large.
        re2.purge()


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


_GO_REASONS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid UTF-8": "invalid UTF-8",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


def _go_words(pattern: str, text: str) -> str:
    """RE2's words about a pattern as Go says them."""
    reason, _, argument = text.partition(": ")
    if reason == "trailing \\" or text.startswith("trailing \\"):
        return "error parsing regexp: trailing backslash at end of expression: ``"
    words = _GO_REASONS.get(reason, reason)
    if reason == "missing )":
        argument = pattern
    elif reason == "missing ]":
        argument = argument or pattern[pattern.rfind("[") :]
    elif reason in ("invalid perl operator", "invalid named capture group"):
        if argument.startswith("(?P<"):
            argument = argument.replace("(?P<", "(?<", 1) if "(?P<" not in pattern else argument
        look = re.match(r"\(\?<[=!]", argument) or re.search(r"\(\?<[=!]", pattern)
        if look and argument.startswith("(?<"):
            return f"error parsing regexp: invalid named capture: `{pattern[look.start() :]}`"
    elif reason == "unexpected )":
        argument = pattern
    return f"error parsing regexp: {words}: `{argument}`"
