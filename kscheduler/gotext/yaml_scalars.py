"""What a plain YAML scalar means: the YAML 1.1 rules of go-yaml v2, quirks included.

`yes` and `on` are booleans, `017` and `0o17` are 15, `1_000` is a thousand, `08` is the float 8,
and a number too large for a float is a string.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

LONG_TAG = "tag:yaml.org,2002:"
RESOLVABLE = frozenset(("str", "bool", "int", "float", "null", "timestamp"))
STYLED_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
POINTED_FLOAT = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?")
INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)"
    r"|(?P<dec>0|[1-9][0-9]*))"
)
TIMESTAMP = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})(?:(?P<between>[Tt ])"
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:[.,][0-9]+)?"
    r"(?P<zone>Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
INFINITIES = (".inf", ".Inf", ".INF")
BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}


def _words(*stems: str) -> list[str]:
    return [form for stem in stems for form in (stem, stem.capitalize(), stem.upper())]


WORDS: dict[str, tuple[str, object]] = {
    **dict.fromkeys(_words("y", "yes", "true", "on"), ("bool", True)),
    **dict.fromkeys(_words("n", "no", "false", "off"), ("bool", False)),
    **dict.fromkeys(["", "~", *_words("null")], ("null", None)),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], ("float", math.nan)),
    **dict.fromkeys(INFINITIES, ("float", math.inf)),
    **dict.fromkeys([f"+{word}" for word in INFINITIES], ("float", math.inf)),
    **dict.fromkeys([f"-{word}" for word in INFINITIES], ("float", -math.inf)),
}


def resolve(tag: str, text: str) -> object:
    """The value of a scalar that is plain or carries `tag` (long form, or empty)."""
    short = tag.removeprefix(LONG_TAG) if tag.startswith(LONG_TAG) else tag
    if short == "str" or (tag and (short == tag or short not in RESOLVABLE)):
        return text
    kind, value = _plain(text, dates=short in ("", "timestamp"))
    if short in ("", kind):
        return value
    if short == "float" and kind == "int" and isinstance(value, int) and value < 1 << 63:
        return float(value)
    raise ValueError(f"cannot decode !!{kind} `{text}` as a !!{short}")


def reads_as_text(text: str) -> bool:
    """Whether a plain scalar would be a string, to go-yaml and to readers that know base 60."""
    return _plain(text, dates=True)[0] == "str" and not BASE_60.fullmatch(text)


def _plain(text: str, *, dates: bool) -> tuple[str, object]:
    if text in WORDS:
        return WORDS[text]
    if text.startswith(".") and POINTED_FLOAT.fullmatch(text):
        return _float(text) or ("str", text)
    if text[0] in "+-0123456789":
        if dates and _is_timestamp(text):
            return "timestamp", text  # which stays a string all the same
        bare = text.replace("_", "")
        return _integer(bare) or _float(bare) or ("str", text)
    return "str", text


def _is_timestamp(text: str) -> bool:
    match = TIMESTAMP.fullmatch(text)
    if match is None or (match["between"] in ("T", "t")) != bool(match["zone"]):
        return False
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    try:
        datetime(int(match["year"]), int(match["month"]), int(match["day"]), hour, minute, second)
    except ValueError:
        return False
    return True


def _integer(bare: str) -> tuple[str, int] | None:
    match = INTEGER.fullmatch(bare)
    if match is None:
        return None
    base = next(name for name in BASES if match[name] is not None)
    value = int(match[base], BASES[base])
    if match["sign"] == "-":
        value = -value
    fits_signed = -(1 << 63) <= value < 1 << 63
    fits_unsigned = not match["sign"] and value < 1 << 64
    return ("int", value) if fits_signed or fits_unsigned else None


def _float(bare: str) -> tuple[str, float] | None:
    if STYLED_FLOAT.fullmatch(bare) is None or math.isinf(float(bare)):
        return None
    return "float", float(bare)
