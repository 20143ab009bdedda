"""Go's fmt: values as `%#v` shows them, and what Sprintf makes of a format without arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kscheduler.gotext.strconv import format_float, quote

_DIRECTIVE = re.compile(
    r"%[-+# 0]*(?P<index>\[[^\]]*\]?)?(?P<width>\*|\d+)?(?P<precision>\.(?:\*|\d*))?"
    r"(?P<late_index>\[[^\]]*\]?)?(?P<verb>.)?",
    re.DOTALL,
)


def go_syntax(value: object) -> str:
    """`%#v` of what a YAML document decodes to; keys of mappings are (kind, value) pairs."""
    match value:
        case None:
            return "interface {}(nil)"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value < 1 << 63 else hex(value)
        case float():
            return format_float(value)
        case str():
            return quote(value)
        case Mapping():
            pairs = (f"{go_syntax(k[1])}:{go_syntax(v)}" for k, v in sorted(value.items()))
            return f"map[interface {{}}]interface {{}}{{{', '.join(pairs)}}}"
        case Sequence():
            return f"[]interface {{}}{{{', '.join(go_syntax(v) for v in value)}}}"
        case _:
            raise TypeError(f"no Go syntax for {type(value).__name__}")


def sprintf_without_arguments(text: str) -> str:
    """`fmt.Sprintf(text)`: upstream does so with finished messages, whose percent signs suffer."""
    return _DIRECTIVE.sub(_directive, text) if "%" in text else text


def _directive(match: re.Match[str]) -> str:
    complaints = "%!(BADWIDTH)" if match["width"] == "*" else ""
    complaints += "%!(BADPREC)" if match["precision"] == ".*" else ""
    verb = match["verb"]
    if verb is None:
        return f"{complaints}%!(NOVERB)"
    if verb == "%":
        return f"{complaints}%"
    indexed = match["index"] or match["late_index"]
    return f"{complaints}%!{verb}({'BADINDEX' if indexed else 'MISSING'})"
