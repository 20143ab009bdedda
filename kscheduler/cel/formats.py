"""Named formats: `format.dns1123Label().validate(text)` and its siblings.

Mirrors Kubernetes' format library with the messages of apimachinery's validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from kscheduler.cel import types
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.frame import Frame
from kscheduler.cel.network import parse_url
from kscheduler.cel.regexes import compile_pattern
from kscheduler.cel.values import Opaque, Value, register

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME})?"
_UUID = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"


# What is wrong with a text; the frame counts the search for it.
Problems = Callable[[Frame, str], list[str]]


@register
class Format(Opaque):
    """A format by its name; `cost` is the length of the expression it is said to match."""

    __slots__ = ("cost", "name", "problems")
    celtype = types.FORMAT
    go_name = "cel.Format"

    def __init__(self, name: str, cost: int, problems: Problems) -> None:
        self.name = name
        self.cost = cost
        self.problems = problems

    def equals(self, other: Value) -> bool:
        if type(other) is not Format:
            raise no_such_overload()
        return self.name == other.name


def _matches(f: Frame, pattern: str, text: str) -> bool:
    return compile_pattern(f, pattern).search(f, text)


def _explained(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _regex_rule(
    pattern: str, limit: int, rule: str, *examples: str, unit: str = "characters"
) -> Problems:
    """The problems of a text that must match a pattern and have at most so many bytes."""

    def problems(f: Frame, text: str) -> list[str]:
        found = []
        if len(text.encode("utf-8", "replace")) > limit:
            found.append(f"must be no more than {limit} {unit}")
        if not _matches(f, f"^(?:{pattern})$", text):
            if pattern == _LABEL and _matches(f, f"^(?:{_SUBDOMAIN})$", text):
                found.append("must not contain dots")
            else:
                found.append(_explained(rule, pattern, *examples))
        return found

    return problems


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
    unit="bytes",
)


_NAME_EXAMPLES = ("MyName", "my.name", "123-abc")


def _qualified_name(f: Frame, text: str) -> list[str]:
    rule = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character"
    )
    parts = text.split("/")
    found = []
    if len(parts) > 2:
        shown = _explained(f"a valid label key {rule}", _NAME, *_NAME_EXAMPLES)
        prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"{shown} {prefix}"]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            # The same rule as for names, but with another word for its limit.
            limit = ("253 characters", "253 bytes")
            found += [f"prefix part {p.replace(*limit)}" for p in _subdomain(f, parts[0])]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode("utf-8", "replace")) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _matches(f, f"^(?:{_NAME})$", name):
        found.append(f"name part {_explained(rule, _NAME, *_NAME_EXAMPLES)}")
    return found


def _prefix(problems: Problems) -> Problems:
    """The rule for a name that something is appended to: a trailing dash is no problem."""
    return lambda f, text: problems(
        f, text[:-2] + "a" if len(text) > 1 and text[-1] == "-" else text
    )


def _uri(_f: Frame, text: str) -> list[str]:
    try:
        parse_url(text)
    except EvaluationError as error:
        return [str(error).removeprefix("URL parse error during conversion from string: ")]
    return []


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return False
    try:
        date(int(text[:4]) or 400, int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


def _is_date_time(f: Frame, text: str) -> bool:
    day, separator, rest = text.lower().partition("t")
    time = rest.partition("t")[0]
    if not (separator and _is_date(day) and _matches(f, _TIME, time)):
        return False
    return time[:2] <= "23" and time[3:5] <= "59" and time[6:8] <= "59"


def _rule(holds: Callable[[Frame, str], bool], problem: str) -> Problems:
    """The rule with a single thing to say of a text for which it does not hold."""
    return lambda f, text: [] if holds(f, text) else [problem]


_uuid = _rule(lambda f, text: _matches(f, _UUID, text), "does not match the UUID format")
_byte = _rule(lambda f, text: _matches(f, _BASE64, text), "invalid base64")
_date = _rule(lambda _f, text: _is_date(text), "invalid date")
_date_time = _rule(_is_date_time, "invalid datetime")


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
    "uuid": Format("uuid", len(_UUID), _uuid),
    "byte": Format("byte", 84, _byte),
    "date": Format("date", len(_TIME), _date),
    "datetime": Format("datetime", len(_TIME), _date_time),
}
