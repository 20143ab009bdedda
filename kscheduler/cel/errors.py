"""Errors of this package, and how a compile error shows the place in the expression.

CelError
├── CompileError           the expression is refused; the text is cel-go's
├── EvaluationError        the value is an error; `&&`, `||`, `all` and `exists` may absorb it
└── AbortedError      evaluation stopped (cost limit, internal error); nothing absorbs it
"""

from dataclasses import dataclass

from kscheduler.errors import KschedulerError

MAX_REPORTED = 100


class CelError(KschedulerError):
    """Raised for an expression that cannot be compiled or evaluated."""


class CompileError(CelError):
    """Raised for an expression that Kubernetes would refuse."""


class EvaluationError(CelError):
    """Raised where CEL evaluates to an error value."""

    __slots__ = ()


class AbortedError(CelError):
    """Raised when evaluation cannot continue; unlike an error value it is never absorbed."""


COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"


def no_such_overload() -> EvaluationError:
    """The error for an operand of a type that the operator does not take."""
    return EvaluationError("no such overload")


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem in the expression; `offset` counts code points, -1 is no place at all."""

    offset: int
    message: str


def issues_text(expression: str, issues: list[Issue]) -> str:
    """The issues in order of place, each with its line of the expression and a marker."""
    lines = expression.split("\n")
    placed = []
    for issue in issues:
        if issue.offset < 0:
            placed.append((-1, -1, issue.message))
            continue
        line = expression.count("\n", 0, issue.offset)
        start = expression.rfind("\n", 0, issue.offset) + 1
        placed.append((line + 1, issue.offset - start, issue.message))
    shown = [
        _issue_text(lines, line, column, message)
        for line, column, message in sorted(placed[:MAX_REPORTED], key=lambda p: p[:2])
    ]
    if len(issues) > MAX_REPORTED:
        shown.append(f"{len(issues) - MAX_REPORTED} more errors were truncated")
    return "\n".join(shown)


def _issue_text(lines: list[str], line: int, column: int, message: str) -> str:
    text = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if line < 1:
        return text
    source = lines[line - 1].replace("\t", " ")
    if len(source.encode("utf-8", "surrogatepass")) > 16384:
        return text
    # Full-width marks keep the marker under its character when the font shows wide glyphs.
    marker = "".join("." if ord(c) < 128 else "\uff0e" for c in source[:column])
    wide = column < len(source) and ord(source[column]) >= 128
    return f"{text}\n | {source}\n | {marker}{chr(0xFF3E) if wide else '^'}"
