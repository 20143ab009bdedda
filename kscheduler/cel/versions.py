"""Semantic versions in expressions: `semver("1.2.3")` and version attributes of a device.

Mirrors github.com/blang/semver/v4 and Kubernetes' normalisation. Differs: nothing.
"""

from __future__ import annotations

import re

from kscheduler.caches import BoundedCache
from kscheduler.cel import types
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.values import UINT_MAX, Opaque, Value, register
from kscheduler.gotext.strconv import quote

_DIGITS = re.compile(r"[0-9]*")
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*")


@register
class Semver(Opaque):
    """A version; build metadata is kept for its text and counts neither in order nor equality."""

    __slots__ = ("key", "numbers", "text")
    celtype = types.SEMVER
    go_name = "cel.Semver"

    def __init__(self, numbers: tuple[int, int, int], pre: tuple[int | str, ...], build: str):
        self.numbers = numbers
        # A version without pre-release follows all of its pre-releases; numbers precede words.
        order = tuple((0, p, "") if isinstance(p, int) else (1, 0, p) for p in pre)
        self.key = (numbers, not pre, order)
        release = ".".join(map(str, numbers))
        self.text = release + (f"-{'.'.join(map(str, pre))}" if pre else "") + build

    def equals(self, other: Value) -> bool:
        if type(other) is not Semver:
            raise no_such_overload()
        return self.key == other.key

    def compare(self, other: Semver) -> int:
        return -1 if self.key < other.key else int(self.key > other.key)

    def number(self, index: int) -> int:
        """Major, minor or patch as the int it wraps to."""
        number = self.numbers[index]
        return number - 2**64 if number >= 2**63 else number

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Semver:
    """The version of a text; raises EvaluationError with the library's words."""
    found = _parsed.get(text)
    if found is None:
        found = _parse(text)
        # Texts are ASCII, and a part takes a tuple.
        _parsed.put(text, found, 500 + 40 * len(text))
    return found


_parsed: BoundedCache[str, Semver] = BoundedCache("cel_versions", 2 << 20)
CACHES = (_parsed,)


def _parse(text: str) -> Semver:
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major")
    minor = _number(parts[1], "minor")
    release, plus, build = parts[2].partition("+")
    release, dash, pre = release.partition("-")
    patch = _number(release, "patch")
    pre_release = tuple(map(_pre_release, pre.split("."))) if dash else ()
    if plus:
        for part in build.split("."):
            if not part:
                raise EvaluationError("Build meta data is empty")
            if not _ALPHANUMERIC.fullmatch(part):
                where = f"build meta data {quote(part)}"
                raise EvaluationError(f"Invalid character(s) found in {where}")
    return Semver((major, minor, patch), pre_release, plus + build)


def _number(text: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        where = f"{name.capitalize()} number"
        raise EvaluationError(f"{where} must not contain leading zeroes {quote(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    if len(text) > 20 or int(text) > UINT_MAX:
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _pre_release(text: str) -> int | str:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            rule = "Numeric PreRelease version must not contain leading zeroes"
            raise EvaluationError(f"{rule} {quote(text)}")
        return _unsigned(text)
    if not _ALPHANUMERIC.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def normalize(text: str) -> Semver:
    """The version of a loosely written text: a leading v, leading zeros and short forms pass."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            if not stripped or stripped[0] not in "0123456789":
                stripped = "0" + stripped
            parts[index] = stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse(".".join(parts))
