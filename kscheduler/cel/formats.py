"""Named formats: `format.dns1123Label().validate(text)` and its siblings.

Mirrors Kubernetes' format library with the messages of apimachinery's validation.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date

from kscheduler.cel import types
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.network import parse_url
from kscheduler.cel.values import Opaque, Value, register

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME})?"
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.I)
_DATE_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[tT ]?([0-9]{2}):([0-9]{2}):([0-9]{2})([.][0-9]+)?"
    r"([zZ]|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)


@register
class Format(Opaque):
    """A format by its name; `cost` is the length of the expression it is said to match."""

    __slots__ = ("cost", "name", "problems")
    celtype = types.FORMAT
    go_name = "cel.Format"

    def __init__(self, name: str, cost: int, problems: Callable[[str], list[str]]) -> None:
        self.name = name
        self.cost = cost
        self.problems = problems

    def equals(self, other: Value) -> bool:
        if type(other) is not Format:
            raise no_such_overload()
        return self.name == other.name


def _examples(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{e}', " for e in examples)
    shown = shown[:-2] + ", "
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _regex_rule(
    pattern: str, limit: int, rule: str, *examples: str
) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, re.ASCII)

    def problems(text: str) -> list[str]:
        found = []
        if len(text.encode("utf-8", "replace")) > limit:
            found.append(f"must be no more than {limit} characters")
        # Bounded before matching: the pattern is only tried on texts that could be long enough.
        if len(text) > 4096 or not compiled.fullmatch(text):
            found.append(_examples(rule, pattern, *examples))
        return found

    return problems


def _rule_first(
    pattern: str, limit: int, rule: str, *examples: str
) -> Callable[[str], list[str]]:
    return _regex_rule(pattern, limit, rule, *examples)


_label = _regex_rule(
    _LABEL,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character",
    *("my-name", "123-abc"),
)
_subdomain = _regex_rule(
    _SUBDOMAIN,
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character",
    "example.com",
)
_label_1035 = _regex_rule(
    _LABEL_1035,
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    *("my-name", "abc-123"),
)
_label_value = _regex_rule(
    _LABEL_VALUE,
    63,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character",
    *("MyValue", "my_value", "12345"),
)
_name = re.compile(_NAME, re.ASCII)


def _qualified_name(text: str) -> list[str]:
    rule = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character"
    )
    parts = text.split("/")
    found = []
    if len(parts) > 2:
        shown = _examples(f"a qualified name {rule}", _NAME, "MyName", "my.name", "123-abc")
        return [f"{shown} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {problem}" for problem in _subdomain(parts[0])]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode("utf-8", "replace")) > 63:
        found.append("name part must be no more than 63 characters")
    if not _name.fullmatch(name[:4096]):
        found.append(f"name part {_examples(rule, _NAME, 'MyName', 'my.name', '123-abc')}")
    return found


def _prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The rule for a name that something is appended to: a trailing dash is no problem."""
    return lambda text: problems(text[:-2] + "a" if len(text) > 1 and text[-1] == "-" else text)


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except EvaluationError as error:
        return [str(error).removeprefix("URL parse error during conversion from string: ")]
    return []


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return False
    try:
        date(int(text[:4]) or 400, int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _date_time(text: str) -> list[str]:
    found = _DATE_TIME.fullmatch(text)
    valid = found is not None and _is_date(found[1])
    if valid and found is not None:
        valid = int(found[2]) < 24 and int(found[3]) < 60 and int(found[4]) < 60
    return [] if valid else ["invalid datetime"]


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


_DATE_TIME_COST = 115
FORMATS = {
    "dns1123Label": Format("DNS1123Label", 30, _label),
    "dns1123Subdomain": Format("DNS1123Subdomain", 60, _subdomain),
    "dns1035Label": Format("DNS1035Label", 30, _label_1035),
    "qualifiedName": Format("QualifiedName", 60, _qualified_name),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", 30, _prefix(_label)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", 60, _prefix(_subdomain)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", 30, _prefix(_label_1035)),
    "labelValue": Format("LabelValue", 40, _label_value),
    "uri": Format("URI", 1103, _uri),
    "uuid": Format("uuid", 0, _uuid),
    "byte": Format("byte", 84, _byte),
    "date": Format("date", _DATE_TIME_COST, _date),
    "datetime": Format("datetime", _DATE_TIME_COST, _date_time),
}
FORMATS["uuid"].cost = 70
