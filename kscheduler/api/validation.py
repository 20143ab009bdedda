"""Well-formed names, label keys and label values, refused in upstream's words.

Each function returns the complaints; no complaint means the text is fine.
"""

import re

from kscheduler.caches import ForShortTexts

LONGEST_LABEL_VALUE = 63
# A DNS subdomain, a slash and a name.
LONGEST_LABEL_KEY = 253 + 1 + 63

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_KEY})?"

_dns_label = re.compile(_DNS_LABEL)
_dns_subdomain = re.compile(_DNS_SUBDOMAIN)
_label_key = re.compile(_LABEL_KEY)
_label_value = re.compile(_LABEL_VALUE)

_DNS_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_DNS_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_LABEL_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_LABEL_KEY_EXAMPLES = ("MyName", "my.name", "123-abc")

_remember_keys = ForShortTexts("label_keys", entries=2048, longest=LONGEST_LABEL_KEY)
_remember_values = ForShortTexts("label_values", entries=2048, longest=LONGEST_LABEL_VALUE)
CACHES = (_remember_keys, _remember_values)


def dns_label_errors(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not _dns_label.fullmatch(text):
        if _dns_subdomain.fullmatch(text):
            errors.append("must not contain dots")
        else:
            errors.append(_mismatch(_DNS_LABEL_RULE, _DNS_LABEL, "my-name", "123-abc"))
    return errors


def dns_subdomain_errors(text: str) -> list[str]:
    errors = _too_long(text, 253)
    if not _dns_subdomain.fullmatch(text):
        errors.append(_mismatch(_DNS_SUBDOMAIN_RULE, _DNS_SUBDOMAIN, "example.com"))
    return errors


@_remember_keys
def label_key_errors(text: str) -> tuple[str, ...]:
    """`[prefix/]name`, also known as a qualified name."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        rule = _mismatch(_LABEL_KEY_RULE, _LABEL_KEY, *_LABEL_KEY_EXAMPLES)
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {rule} {optional}",)
    errors: list[str] = []
    if slash:
        prefix_errors = dns_subdomain_errors(prefix) if prefix else ["must be non-empty"]
        errors += [f"prefix part {error}" for error in prefix_errors]
    name_errors = _too_long(name, 63) if name else ["must be non-empty"]
    if not _label_key.fullmatch(name):
        name_errors.append(_mismatch(_LABEL_KEY_RULE, _LABEL_KEY, *_LABEL_KEY_EXAMPLES))
    return (*errors, *(f"name part {error}" for error in name_errors))


@_remember_values
def label_value_errors(text: str) -> tuple[str, ...]:
    errors = _too_long(text, 63)
    if not _label_value.fullmatch(text):
        examples = ("MyValue", "my_value", "12345")
        errors.append(_mismatch(_LABEL_VALUE_RULE, _LABEL_VALUE, *examples))
    return tuple(errors)


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _mismatch(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"
