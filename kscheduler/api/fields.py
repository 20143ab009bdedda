"""Field selectors of a URL: `status.phase!=Succeeded,spec.nodeName=n1`."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from kscheduler.api.labels import SelectorError

# In this order, so that `==` is not read as `=` with a value that starts with one.
_OPERATOR = re.compile("!=|==|=")
_SPECIAL = "\\,="


class FieldRequirement(msgspec.Struct, frozen=True):
    field: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        """A field that is not there reads as the empty string."""
        return (fields.get(self.field, "") == self.value) is not self.negated

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.negated else '='}{escape_value(self.value)}"


class FieldSelector(msgspec.Struct, frozen=True):
    """All requirements must hold; without any, everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(requirement.matches(fields) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def parse_field_selector(text: str) -> FieldSelector:
    """Terms that name neither field nor value (`=`) ask for nothing and are dropped."""
    requirements: list[FieldRequirement] = []
    for term in sorted(filter(None, _split_terms(text))):
        # The first operator of the term, wherever it stands: a field may be empty.
        found = _OPERATOR.search(term)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: found.start()], _unescaped(term[found.end() :])
        if field or value:
            requirements.append(FieldRequirement(field, value, found[0] == "!="))
    return FieldSelector(tuple(requirements))


def escape_value(value: str) -> str:
    for char in _SPECIAL:
        value = value.replace(char, "\\" + char)
    return value


def _split_terms(text: str) -> Iterator[str]:
    """Terms between commas, except those behind a backslash, which stay in the term as written."""
    start, escaped = 0, False
    for position, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _unescaped(value: str) -> str:
    shown, rest = [], iter(value)
    for char in rest:
        if char == "\\":
            following = next(rest, "")
            if not following or following not in _SPECIAL:
                sequence = "\\" + following
                raise SelectorError(f"invalid field selector: invalid escape sequence: {sequence}")
            shown.append(following)
        elif char in ",=":
            raise SelectorError(
                f"invalid field selector: unescaped character in value: {ord(char)}"
            )
        else:
            shown.append(char)
    return "".join(shown)
