"""Label selectors as written in a URL: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>5,j<3`.

Mirrors the parser in apimachinery/pkg/labels, error texts included. `in` and `notin` are words
only where an operator can stand; elsewhere they are keys or values like any other.
"""

import re
from collections.abc import Iterator

from kscheduler.api import field_errors
from kscheduler.api.labels import Operator, Requirement, Selector, SelectorError, requirement
from kscheduler.api.validation import label_key_errors

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<>\s]+|$)")
_SYMBOLS = frozenset(("==", "=", "!=", "!", "(", ")", ",", "<", ">"))
_END = ""

_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_BINARY_NAMES = "in, notin, =, ==, !=, gt, lt"


def parse_selector(text: str) -> Selector:
    """The selector a query string means; an empty one matches everything."""
    return Selector(_Parser(text).requirements())


def _is_identifier(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


class _Parser:
    """Walks the tokens once; `_next` is the only thing that moves."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def requirements(self) -> Iterator[Requirement]:
        while self._peek() != _END:
            if not (_is_identifier(self._peek()) or self._peek() == "!"):
                expected = "!, identifier, or 'end of string'"
                raise SelectorError(f"found '{self._peek()}', expected: {expected}")
            yield self._requirement()
            self._separator()

    def _separator(self) -> None:
        token = self._next()
        if token == _END:
            self._position -= 1
        elif token != ",":
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        elif not (_is_identifier(self._peek()) or self._peek() == "!"):
            raise SelectorError(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        try:
            return self._parse_requirement()
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from error

    def _parse_requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._next()
        key = self._next()
        if not _is_identifier(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        if complaints := label_key_errors(key):
            raise SelectorError(field_errors.invalid("", key, "; ".join(complaints)))
        if negated:
            return requirement(key, Operator.DOES_NOT_EXIST)
        if self._peek() in (_END, ","):
            return requirement(key, Operator.EXISTS)
        token = self._next()
        operator = _BINARY.get(token)
        if operator is None:
            raise SelectorError(f"found '{token}', expected: {_BINARY_NAMES}")
        values = self._value_set() if token in ("in", "notin") else {self._single_value()}
        return requirement(key, operator, tuple(sorted(values)))

    def _single_value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._next()
        if not _is_identifier(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _value_set(self) -> set[str]:
        """`(a,b)`; empty places, as in `()` or `(a,)`, stand for the empty value."""
        token = self._next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        token = self._peek()
        if token == ")":
            self._next()
            return {""}
        if token != "," and not _is_identifier(token):
            raise SelectorError(f"found '{token}', expected: ',', ')' or identifier")
        values = self._identifiers()
        self._next()
        return values

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            token = self._next()
            following = self._peek()
            if _is_identifier(token):
                values.add(token)
                if following not in (",", ")"):
                    raise SelectorError(f"found '{following}', expected: ',' or ')'")
            elif token == ",":
                if not values or following in (",", ")"):
                    values.add("")
            else:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            if following == ")":
                return values

    def _peek(self) -> str:
        return self._tokens[min(self._position, len(self._tokens) - 1)]

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        token = match[1] if match else _END
        yield token
        if match is None or token == _END:
            return
        position = match.end()
