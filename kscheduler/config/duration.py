"""Durations as configuration carries them: a number of nanoseconds that prints the way Go does."""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from kscheduler.gotext import duration as go


class Duration(int):
    """A span of time in whole nanoseconds."""

    __slots__ = ()

    @classmethod
    def of(cls, seconds: float) -> Duration:
        return cls(round(seconds * go.SECOND))

    @property
    def seconds(self) -> float:
        return int(self) / go.SECOND

    def __str__(self) -> str:
        return go.format_duration(int(self))

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _duration, serialization=core_schema.to_string_ser_schema()
        )


def _duration(value: object) -> Duration:
    match value:
        case Duration():
            return value
        case str():
            return parse_duration(value)
        case _:
            raise ValueError(f"not a duration: {value!r}")


def parse_duration(text: str) -> Duration:
    """`1h2m3.5s`; a ValueError carries the text Go would print."""
    return Duration(go.parse_duration(text))
