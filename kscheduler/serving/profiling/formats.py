"""Stacks with numbers, in the formats of pprof and of speedscope."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kscheduler.serving.exposition import integer, message, packed, string
from kscheduler.serving.profiling.sampler import Place, Samples, Stack

Unit = tuple[str, str]  # the quantity and its unit: ("cpu", "nanoseconds")

NANO = 1_000_000_000


class _Tables(msgspec.Struct):
    """Texts, functions and locations by number; 0 is the empty text, and nothing else."""

    texts: dict[str, int] = msgspec.field(default_factory=lambda: {"": 0})
    functions: dict[tuple[str, str, int], int] = msgspec.field(default_factory=dict)
    locations: dict[Place, int] = msgspec.field(default_factory=dict)

    def text(self, value: str) -> int:
        return self.texts.setdefault(value, len(self.texts))

    def location(self, place: Place) -> int:
        self.functions.setdefault(place[:3], len(self.functions) + 1)
        return self.locations.setdefault(place, len(self.locations) + 1)


def pprof(
    units: Sequence[Unit],
    stacks: Iterable[tuple[Stack, Sequence[int]]],
    *,
    started: float = 0.0,
    seconds: float = 0.0,
    period: tuple[Unit, int] | None = None,
) -> bytes:
    """A gzipped profile.proto; each stack, innermost first, has one number per unit."""
    tables = _Tables()
    kinds = b"".join(message(1, _unit(tables, unit)) for unit in units)
    samples = b"".join(
        message(2, packed(1, map(tables.location, stack)) + packed(2, values))
        for stack, values in stacks
    )
    rest = integer(9, int(started * NANO)) + integer(10, int(seconds * NANO))
    if period is not None:
        rest += message(11, _unit(tables, period[0])) + integer(12, period[1])
    # Last, when samples have filled the tables; functions first, since they add to the texts.
    functions = b"".join(
        message(
            5,
            integer(1, number)
            + integer(2, tables.text(name))
            + integer(3, tables.text(name))
            + integer(4, tables.text(file))
            + integer(5, first_line),
        )
        for (name, file, first_line), number in tables.functions.items()
    )
    locations = b"".join(
        message(
            4,
            integer(1, number)
            + message(4, integer(1, tables.functions[place[:3]]) + integer(2, place.line)),
        )
        for place, number in tables.locations.items()
    )
    texts = b"".join(string(6, text) for text in tables.texts)
    document = kinds + samples + locations + functions + texts + rest
    return gzip.compress(document, compresslevel=5, mtime=0)


def _unit(tables: _Tables, unit: Unit) -> bytes:
    return integer(1, tables.text(unit[0])) + integer(2, tables.text(unit[1]))


def summed(samples: Samples) -> Mapping[Stack, tuple[int, int]]:
    """Number of samples and nanoseconds of CPU by stack."""
    totals: dict[Stack, tuple[int, int]] = {}
    for stack, used in samples.seen:
        count, nanos = totals.get(stack, (0, 0))
        totals[stack] = (count + 1, nanos + used)
    return totals


def speedscope(samples: Samples) -> bytes:
    """A timeline of stacks, for https://www.speedscope.app or `speedscope FILE`."""
    frames: dict[Place, int] = {}
    stacks = [
        [frames.setdefault(place, len(frames)) for place in reversed(stack)]
        for stack, _ in samples.seen
    ]
    weights = [used for _, used in samples.seen]
    profile = {
        "type": "sampled",
        "name": "event loop",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": stacks,
        "weights": weights,
    }
    shared = [{"name": p.function, "file": p.file, "line": p.line} for p in frames]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "kscheduler",
        "shared": {"frames": shared},
        "profiles": [profile],
    }
    return json.dumps(document).encode()
