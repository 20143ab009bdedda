"""Regular expressions of expressions, by RE2: time linear in the text whatever the pattern.

Mirrors Go's regexp. Differs: RE2's own parser decides; where its words differ from Go's they are
rewritten, and rare patterns that only one of the two accepts are listed in the tests.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")


class PatternError(Exception):
    """Raised for a pattern that is no regular expression, with Go's words."""


def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; raises PatternError."""
    compiled = _compile(pattern) if len(pattern) <= 256 else _compile.__wrapped__(pattern)
    if isinstance(compiled, str):
        raise PatternError(compiled)
    return compiled


@lru_cache(512)
def _compile(pattern: str) -> Any:
    if "\\C" in re.sub(r"\\\\", "", pattern):
        return "error parsing regexp: invalid escape sequence: `\\C`"
    try:
        return re2.compile(_NAMED_GROUP.sub("(?P<", pattern), _OPTIONS)
    except re2.error as error:
        return _go_words(pattern, error)


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


def _go_words(pattern: str, error: Exception) -> str:
    text = error.args[0] if error.args else ""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
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


def search(compiled: Any, text: str) -> bool:
    """Whether the pattern occurs in the text.

    The binding takes about ten microseconds per search, and devices have few distinct values.
    """
    return _search(compiled, text) if len(text) <= 128 else _search.__wrapped__(compiled, text)


@lru_cache(4096)
def _search(compiled: Any, text: str) -> bool:
    return compiled.search(text) is not None


def find(compiled: Any, text: str) -> str:
    """The first occurrence, or the empty string."""
    found = compiled.search(text)
    return "" if found is None else found.group()


def find_all(compiled: Any, text: str, limit: int) -> list[str]:
    """Occurrences from the left, at most `limit` of them if that is not negative.

    An empty match right after the previous match does not count, as in Go.
    """
    results: list[str] = []
    previous_end = -1
    for found in compiled.finditer(text):
        if limit >= 0 and len(results) >= limit:
            break
        start, end = found.span()
        if start == end and start == previous_end:
            continue
        results.append(text[start:end])
        previous_end = end
    return results
