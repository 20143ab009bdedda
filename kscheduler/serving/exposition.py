"""Metric families as Prometheus reads them: text 0.0.4 as client_golang prints it, or protobuf.

Protocol buffers are written by hand: enough of them for the two messages that tools ask us for,
metric families here and pprof's profiles in `profiling`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from prometheus_client import Metric
from prometheus_client.samples import Sample

from kscheduler.gotext.strconv import format_float

GAUGE = "gauge"
_KINDS = {"counter": 0, "gauge": 1, "unknown": 3, "untyped": 3, "histogram": 4}
_LABEL_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})
# From here on Go writes whole numbers with an exponent.
_PLAIN_BELOW = 1_000_000


def as_text(families: Iterable[Metric]) -> bytes:
    lines: list[str] = []
    for family in _by_name(families):
        name = printed_name(family)
        kind = "untyped" if family.type == "unknown" else family.type
        lines.append(opening(name, family.documentation, kind))
        lines.extend(
            f"{sample.name}{label_text(sample.labels)} {number_text(sample.value)}\n"
            for sample in _samples(family)
        )
    return "".join(lines).encode("utf-8", "replace")


def opening(name: str, documentation: str, kind: str) -> str:
    """The lines before a family's samples."""
    return f"# HELP {name} {documentation.translate(_HELP_ESCAPES)}\n# TYPE {name} {kind}\n"


def as_protobuf(families: Iterable[Metric]) -> bytes:
    """One MetricFamily after the other, each behind its length."""
    written: list[bytes] = []
    for family in _by_name(families):
        if family.type == "histogram":
            series = _histograms(family)
        else:
            # Metric's field for a value of the kind: counter 3, gauge 2, untyped 5.
            field = {0: 3, 1: 2, 3: 5}[_KINDS[family.type]]
            series = (
                _pairs(sample.labels) + message(field, double(1, sample.value))
                for sample in _samples(family)
            )
        head = family_head(printed_name(family), family.documentation, family.type)
        encoded = head + b"".join(message(4, one) for one in series)
        written += (varint(len(encoded)), encoded)
    return b"".join(written)


def printed_name(family: Metric) -> str:
    """The name readers know a family by; prometheus-client drops a counter's suffix inside."""
    if family.type == "counter" and family.samples:
        return family.samples[0].name
    return family.name


def _by_name(families: Iterable[Metric]) -> list[Metric]:
    return sorted((family for family in families if family.samples), key=printed_name)


def _samples(family: Metric) -> Iterator[Sample]:
    return (sample for sample in family.samples if not sample.name.endswith("_created"))


def label_text(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    # client_golang prints a bucket's bound behind the labels of its series.
    ordered = sorted(labels.items(), key=lambda pair: (pair[0] == "le", pair[0]))
    return f"{{{label_pairs(ordered)}}}"


def label_pairs(labels: Iterable[tuple[str, str]]) -> str:
    return ",".join([f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in labels])


def number_text(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    if value == int(value) and abs(value) < _PLAIN_BELOW:
        return str(int(value))
    return format_float(float(value))


def family_head(name: str, documentation: str, kind: str) -> bytes:
    """A MetricFamily without its samples."""
    return string(1, name) + string(2, documentation) + integer(3, _KINDS[kind])


def _histograms(family: Metric) -> Iterator[bytes]:
    """One Metric per series. Samples of a series stand together: its buckets, count and sum."""

    def without_le(sample: Sample) -> dict[str, str]:
        return {name: value for name, value in sample.labels.items() if name != "le"}

    for labels, samples in groupby(_samples(family), key=without_le):
        buckets, count, total = b"", 0.0, 0.0
        for sample in samples:
            if sample.name.endswith("_sum"):
                total = sample.value
            elif sample.name.endswith("_count"):
                count = sample.value
            elif sample.labels["le"] != "+Inf":
                bound = float(sample.labels["le"])
                buckets += message(3, integer(1, int(sample.value)) + double(2, bound))
        content = integer(1, int(count)) + double(2, total) + buckets
        yield _pairs(labels) + message(7, content)


def _pairs(labels: Mapping[str, str]) -> bytes:
    return b"".join(
        message(1, string(1, name) + string(2, value)) for name, value in sorted(labels.items())
    )


_VARINT, _FIXED64, _BYTES = 0, 1, 2
# Most numbers are small: keys of fields, lengths of labels.
_ONE_BYTE = tuple(bytes([number]) for number in range(0x80))


def varint(number: int) -> bytes:
    """A number in groups of seven bits; a negative one takes ten bytes."""
    if 0 <= number <= 0x7F:
        return _ONE_BYTE[number]
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """Nothing for zero, which is what a reader assumes."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def string(field: int, value: str) -> bytes:
    return message(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """A list of numbers in one piece."""
    return message(field, b"".join(map(varint, values)))
