"""The release to behave as: --emulated-version and --min-compatibility-version.

A flag's item is `[component=]version`; the only component here is kube. Texts and checks are
component-base's (compatibility, apimachinery's version parsing).
"""

import re
from collections.abc import Sequence

import msgspec

from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import parse_uint, quote
from kscheduler.version import KUBERNETES_VERSION

Release = tuple[int, int]

COMPONENT = "kube"
_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)")
_SUFFIX = re.compile(
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?\s*"
)


def release_text(release: Release) -> str:
    return f"{release[0]}.{release[1]}"


class ParsedVersion(msgspec.Struct, frozen=True):
    """Numbers of a version and, if it is a semantic one, what follows them."""

    numbers: tuple[int, ...]
    suffix: str = ""

    @property
    def release(self) -> Release:
        return self.numbers[0], self.numbers[1]

    @property
    def patch(self) -> int:
        return self.numbers[2] if len(self.numbers) > 2 else 0

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers)) + self.suffix


def parse_version(text: str) -> ParsedVersion:
    """A semantic version, or else at least two numbers followed by anything."""
    try:
        return parse_semantic_version(text)
    except ConfigError:
        parts, _ = _split(text)
        if len(parts) < 2:
            raise ConfigError(f"illegal version string {quote(text)}") from None
        return ParsedVersion(_numbers(parts, text, checked=parts[:1]))


def parse_semantic_version(text: str) -> ParsedVersion:
    """Three numbers, perhaps with a pre-release and build metadata."""
    parts, rest = _split(text)
    if len(parts) != 3:
        raise ConfigError(f"illegal version string {quote(text)}")
    numbers = _numbers(parts, text, checked=parts)
    match = _SUFFIX.fullmatch(rest)
    if not match:
        raise ConfigError(f"could not parse pre-release/metadata ({rest}) in version {quote(text)}")
    for part in (match[1] or "").split("."):
        if part.isdecimal():
            _refuse_leading_zero(part, text)
    return ParsedVersion(numbers, rest.rstrip())


def _split(text: str) -> tuple[list[str], str]:
    match = _VERSION.fullmatch(text)
    if not match:
        raise ConfigError(f"could not parse {quote(text)} as version")
    return match[1].split("."), match[2]


def _numbers(parts: Sequence[str], text: str, *, checked: Sequence[str]) -> tuple[int, ...]:
    for part in checked:
        _refuse_leading_zero(part, text)
    numbers = []
    for part in parts:
        try:
            numbers.append(parse_uint(part, base=10))
        except ConfigError as err:
            raise ConfigError(
                f"illegal non-numeric version component {quote(part)} in {quote(text)}: {err}"
            ) from None
    return tuple(numbers)


def _refuse_leading_zero(part: str, text: str) -> None:
    if part.startswith("0") and part != "0":
        raise ConfigError(f"illegal zero-prefixed version component {quote(part)} in {quote(text)}")


BINARY = parse_version(KUBERNETES_VERSION)
FLOOR: Release = (BINARY.numbers[0], BINARY.numbers[1] - 3)


class Emulation(msgspec.Struct, frozen=True):
    """The release whose features are offered, and the oldest one we must get along with."""

    emulated: Release = BINARY.release
    lowest: Release = (BINARY.numbers[0], BINARY.numbers[1] - 1)

    @classmethod
    def from_flags(cls, emulated: Sequence[str], min_compatibility: Sequence[str]) -> "Emulation":
        chosen = _version_of_kube(emulated)
        release = chosen.release if chosen else BINARY.release
        lowest = max((release[0], max(release[1] - 1, 0)), FLOOR)
        chosen = _version_of_kube(min_compatibility)
        return cls(release, chosen.release if chosen else lowest)

    def problems(self) -> list[str]:
        """Both versions must lie between what we still know and what we are."""
        found = []
        emulated, lowest = release_text(self.emulated), release_text(self.lowest)
        floor = release_text(FLOOR)
        if not FLOOR <= self.emulated <= BINARY.release:
            found.append(f"emulation version {emulated} is not between [{floor}, {BINARY}]")
        if not FLOOR <= self.lowest <= self.emulated:
            found.append(
                f"minCompatibilityVersion version {lowest} is not between [{floor}, {emulated}]"
            )
        return found


def _version_of_kube(items: Sequence[str]) -> ParsedVersion | None:
    """The version that a flag's items name; all items are parsed before components are checked."""
    versions: dict[str, ParsedVersion] = {}
    for item in items:
        name, equals, text = item.partition("=")
        component = name.strip() if equals else COMPONENT
        version = parse_version(text.strip() if equals else item)
        if version.patch:
            raise ConfigError(f"patch version not allowed, got: {component}={version}")
        if component in versions:
            earlier = versions[component]
            raise ConfigError(
                f"duplicate version flag, {component}={earlier} and {component}={version}"
            )
        versions[component] = version
    for component in versions:
        if component != COMPONENT:
            raise ConfigError(f"component not registered: {component}")
    return versions.get(COMPONENT)
