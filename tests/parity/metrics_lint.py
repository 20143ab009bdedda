"""What `promtool check metrics` objects to, written down once more."""

import re
from collections.abc import Iterator
from typing import NamedTuple

BASE_UNITS = {
    **{
        unit: unit
        for unit in (
            *("amperes", "bytes", "celsius", "grams", "joules"),
            *("kelvin", "meters", "metres", "seconds", "volts"),
        )
    },
    **dict.fromkeys(("minutes", "hours", "days", "weeks"), "seconds"),
    **dict.fromkeys(("fahrenheit", "rankine"), "celsius"),
    **dict.fromkeys(("inches", "yards", "miles"), "meters"),
    **dict.fromkeys(("pounds", "ounces"), "grams"),
    "kelvins": "kelvin",
    "bits": "bytes",
    "calories": "joules",
}
PREFIXES = (
    *("pico", "nano", "micro", "milli", "centi", "deci", "deca", "hecto"),
    *("kilo", "kibi", "mega", "mibi", "giga", "gibi", "tera", "tebi", "peta", "pebi"),
)
ABBREVIATIONS = (*("s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"),)
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
CAMEL_CASE = re.compile(r"[a-z][A-Z]")
HELP = re.compile(r"# HELP (\S+) ?(.*)")
TYPE = re.compile(r"# TYPE (\S+) (\S+)")
SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')


class Seen(NamedTuple):
    name: str
    kind: str
    help: str
    samples: tuple[str, ...]
    labels: frozenset[str]


def lint(page: str) -> list[str]:
    return [f"{seen.name} {problem}" for seen in families(page) for problem in problems(seen)]


def families(page: str) -> Iterator[Seen]:
    """Families in the order of the page; a line that is none of a page's is an error."""
    told: dict[str, list[str]] = {}
    kinds, helps, labels = {}, {}, {}
    name = ""
    for line in page.splitlines():
        if match := HELP.fullmatch(line):
            name = match[1]
            assert name not in helps, f"{name} appears twice"
            helps[name], told[name], labels[name] = match[2], [], set()
        elif match := TYPE.fullmatch(line):
            assert match[1] == name, line
            kinds[name] = match[2]
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1].startswith(name), line
            told[name].append(line)
            labels[name] |= set(LABEL.findall(match[2] or ""))
    for name, samples in told.items():
        yield Seen(name, kinds[name], helps[name], tuple(samples), frozenset(labels[name]))


def problems(seen: Seen) -> Iterator[str]:
    yield from _text(seen)
    yield from _suffixes(seen)
    yield from _words(seen)
    if len({sample.rpartition(" ")[0] for sample in seen.samples}) != len(seen.samples):
        yield "metric not unique"


def _text(seen: Seen) -> Iterator[str]:
    if not seen.help:
        yield "no help text"
    if seen.kind not in TYPES:
        yield f"is of no known type: {seen.kind}"


def _suffixes(seen: Seen) -> Iterator[str]:
    name, kind = seen.name, seen.kind
    if kind == "counter" and not name.endswith("_total"):
        yield 'counter metrics should have "_total" suffix'
    if kind not in ("counter", "untyped") and name.endswith("_total"):
        yield 'non-counter metrics should not have "_total" suffix'
    if kind not in ("histogram", "summary") and name.endswith("_count"):
        yield 'non-histogram and non-summary metrics should not have "_count" suffix'
    if kind not in ("histogram", "summary") and name.endswith("_sum"):
        yield 'non-histogram and non-summary metrics should not have "_sum" suffix'
    if kind != "histogram" and name.endswith("_bucket"):
        yield 'non-histogram metrics should not have "_bucket" suffix'
    if kind != "histogram" and "le" in seen.labels:
        yield 'non-histogram metrics should not have "le" label'
    if kind != "summary" and "quantile" in seen.labels:
        yield 'non-summary metrics should not have "quantile" label'


def _words(seen: Seen) -> Iterator[str]:
    name = seen.name
    words = name.lower().split("_")
    if ":" in name:
        yield "metric names should not contain ':'"
    if CAMEL_CASE.search(name):
        yield "metric names should be written in 'snake_case' not 'camelCase'"
    for label in sorted(seen.labels):
        if CAMEL_CASE.search(label):
            yield "label names should be written in 'snake_case' not 'camelCase'"
    if seen.kind in words[1:]:
        yield f"metric name should not include type '{seen.kind}'"
    if not set(ABBREVIATIONS).isdisjoint(words[1:]):
        yield "metric names should not contain abbreviated units"
    for word in words:
        if base := _base_unit(word):
            if base != word:
                yield f'use base unit "{base}" instead of "{word}"'
            return


def _base_unit(word: str) -> str:
    bare = (word.removeprefix(prefix) for prefix in PREFIXES if word.startswith(prefix))
    return next((BASE_UNITS[unit] for unit in (word, *bare) if unit in BASE_UNITS), "")
