"""Recorded CEL expressions, replayed: `python -m tests.parity.cel [--list N] [file ...]`.

Prints how many rows agree by kind, then the differences. A row is admitted if an API server would
take its expression: it compiles there, its worst-case cost is within the limit and its text too.
"""

import argparse
import base64
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.api import resource
from kscheduler.cel import CelError, CompileError, Device, compile, compile_value, device_of
from kscheduler.cel.times import timestamp_text
from kscheduler.cel.types import Type
from kscheduler.cel.values import Duration, Optional, Timestamp, Uint, key_value, type_name
from kscheduler.gotext.strconv import format_float

RECORDING = Path(__file__).parent / "cases" / "cel.jsonl.gz"
NOT_A_BOOL = "must evaluate to bool or the unknown type, not "
MAX_COST, MAX_BYTES = 1_000_000, 10_240


def rows(path: Path = RECORDING) -> list[dict[str, Any]]:
    """The rows of a recording."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


def is_admitted(row: dict[str, Any]) -> bool:
    """Whether an API server would store the row's expression."""
    outcome = row["outcome"]
    cost = outcome.get("max_cost", MAX_COST + 1)
    size = len(row["expression"].encode())
    return bool(outcome.get("new_ok")) and cost <= MAX_COST and size <= MAX_BYTES


def device_from_json(document: dict[str, Any]) -> Device:
    """The device of a row: that of the API's JSON, with its driver beside the other fields."""
    return device_of(document["driver"], msgspec.convert(document, resource.Device))


def canonical(value: Any) -> dict[str, Any]:
    """The value in the notation of the recording."""
    name = type_name(value)
    match value:
        case bool() | str() | None:
            content: Any = value
        case float():
            content = format_float(value)
        case Uint() | int():
            content = str(int(value))
        case bytes():
            content = base64.b64encode(value).decode()
        case Duration():
            content = f"{value.nanos}ns"
        case Timestamp():
            content = timestamp_text(Timestamp(value.nanos))
        case list():
            content = [canonical(element) for element in value]
        case dict():
            pairs = [[canonical(key_value(k)), canonical(v)] for k, v in value.items()]
            content = sorted(pairs, key=lambda pair: json.dumps(pair[0], ensure_ascii=False))
        case Optional():
            return {"t": name, "v": canonical(value.value)} if value.present else {"t": name}
        case Type():
            content = value.name
        case _:
            content = str(value)
    return {"t": name, "v": content}


def _evaluated(run: Any) -> tuple[str, Any]:
    try:
        return "value", run()
    except CelError as error:
        return "error", str(error)


def replay(row: dict[str, Any]) -> tuple[str, Any, Any]:
    """The row's kind, and what was recorded and found: equal if the row agrees."""
    outcome, expression = row["outcome"], row["expression"]
    device = device_from_json(row["device"])
    if "panic" in outcome:
        try:
            compile(expression)
        except CompileError:
            return "refusal", "refused", "refused"
        return "refusal", "refused", "compiled"
    if "compile_error" in outcome:
        return _replay_refusal(row, device)
    wanted = ("error", outcome["error"]) if "error" in outcome else ("value", outcome["match"])
    kind = "error text" if "error" in outcome else "match"
    try:
        program = compile(expression)
    except CompileError as error:
        return kind, wanted, ("refused", str(error))
    return kind, wanted, _evaluated(lambda: program.matches(device))


def _replay_refusal(row: dict[str, Any], device: Any) -> tuple[str, Any, Any]:
    outcome, expression = row["outcome"], row["expression"]
    wanted = outcome["compile_error"]
    try:
        compile(expression)
        found = "compiled"
    except CompileError as error:
        found = str(error)
    if not wanted.startswith(NOT_A_BOOL):
        syntax = "Syntax error" in wanted or "recovery" in wanted
        if syntax and found != "compiled":
            return "syntax refusal", "refused", "refused"
        return "syntax refusal" if syntax else "refusal text", wanted, found
    if found != wanted or not ("value" in outcome or "value_error" in outcome):
        return "output type", wanted, found
    if "value" in outcome:
        try:
            program = compile_value(expression)
        except CompileError as error:
            return "value", outcome["value"], str(error)
        got = _evaluated(lambda: canonical(program.evaluate(device)))
        return "value", ("value", outcome["value"]), got
    try:
        program = compile_value(expression)
    except CompileError as error:
        text = str(error).replace("program instantiation failed", "program", 1)
        return "value error", outcome["value_error"], text
    return (
        "value error",
        ("error", outcome["value_error"]),
        _evaluated(lambda: program.evaluate(device)),
    )


def _replay_safely(row: dict[str, Any]) -> tuple[str, Any, Any]:
    try:
        return replay(row)
    except Exception as error:  # a foreign exception is a difference to list
        return "raised", None, repr(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[RECORDING])
    parser.add_argument("--list", type=int, default=20, help="differences to show")
    options = parser.parse_args()
    agree: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    shown = 0
    for row in (row for path in options.files for row in rows(path)):
        kind, wanted, found = _replay_safely(row)
        key = ("admitted" if is_admitted(row) else "other", kind)
        total[key] += 1
        if wanted == found and kind != "raised":
            agree[key] += 1
        elif shown < options.list:
            shown += 1
            print(f"{key[0]} {kind} {row['id']}: {row['expression'][:300]!r}")
            print(f"  recorded {str(wanted)[:300]!r}\n  found    {str(found)[:300]!r}")
    for key in sorted(total):
        print(f"{key[0]:9} {key[1]:15} {agree[key]:5} of {total[key]:5}")
    print(f"together {sum(agree.values())} of {sum(total.values())}")


if __name__ == "__main__":
    main()
