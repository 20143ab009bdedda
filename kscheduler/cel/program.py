"""Program: a compiled expression, ready to be evaluated on devices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kscheduler.cel import types
from kscheduler.cel.attributes import Run
from kscheduler.cel.checker import Checker
from kscheduler.cel.costs import LIMIT, Frame
from kscheduler.cel.device import Device
from kscheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    AbortedError,
    CelError,
    CompileError,
    EvaluationError,
    Issue,
)
from kscheduler.cel.parser import parse, refusal
from kscheduler.cel.planner import plan
from kscheduler.cel.reads import Path, reads_of
from kscheduler.cel.types import Kind, Type
from kscheduler.cel.validators import validate
from kscheduler.cel.values import WORK, Optional, Value, type_name

# The parser's limits bound the depth of a tree; descent takes about ten Python frames per level.
_STACK = 20_000
_SHALLOW = 400  # characters that cannot nest deeply enough to matter


@contextmanager
def _deep_stack() -> Iterator[None]:
    """Room on Python's stack for a tree as deep as the parser allows."""
    limit = sys.getrecursionlimit()
    if limit >= _STACK:
        yield
        return
    sys.setrecursionlimit(_STACK)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class Program:
    """A compiled expression.

    `output_type` is the static type of its result; `reads` are the parts of a device that it can
    look at, so that devices equal in these need not be evaluated again.
    """

    __slots__ = ("_deep", "_run", "_slots", "expression", "output_type", "reads")

    def __init__(
        self,
        expression: str,
        run: Run,
        slots: int,
        output_type: Type,
        reads: frozenset[Path],
        *,
        deep: bool,
    ) -> None:
        self.expression = expression
        self.output_type = output_type
        self.reads = reads
        self._run = run
        self._slots = slots
        self._deep = deep

    def matches(self, device: Device) -> bool:
        """Whether the device meets the selector; raises EvaluationError or AbortedError."""
        value = self.evaluate_with_cost(device)[0]
        if value is True or value is False:
            return value
        return _as_bool(value)

    def evaluate(self, device: Device) -> Value:
        """The expression's value on a device; raises EvaluationError or AbortedError."""
        return self.evaluate_with_cost(device)[0]

    def evaluate_with_cost(self, device: Device) -> tuple[Value, int]:
        """The value, and what it cost of the budget."""
        device.fields  # noqa: B018  a device without values fails before anything is evaluated
        frame = Frame(device, self._slots)
        WORK.left = WORK.LIMIT
        try:
            if self._deep:
                with _deep_stack():
                    value = self._run(frame)
            else:
                value = self._run(frame)
        except CelError:
            raise
        except Exception as error:
            # As cel-go recovers from a panic: a selector must not take the scheduler with it.
            raise AbortedError(f"internal error: {error}") from error
        if frame.cost > LIMIT:
            raise AbortedError(COST_LIMIT_EXCEEDED)
        return value, frame.cost


_NO_BOOL = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "string": "unsupported native conversion from string to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "double": "type conversion error from Double to 'bool'",
    "type": "type conversion not supported for 'type'",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
}


def _as_bool(value: Value) -> bool:
    """The bool inside of optional values; anything else is an error."""
    name = type_name(value)
    inner = value
    while type(inner) is Optional:
        if not inner.present:
            tail = "optional.none() dereference"
            raise EvaluationError(
                f"CEL result of type {name} could not be converted to bool: {tail}"
            )
        inner = inner.value
    if inner is True or inner is False:
        return bool(inner)
    inner_name = type_name(inner)
    tail = _NO_BOOL.get(inner_name, "")
    if not tail:
        short = inner_name.rpartition(".")[2]
        tail = f"type conversion error from '{short}' to 'bool'"
    raise EvaluationError(f"CEL result of type {name} could not be converted to bool: {tail}")


def compile_value(expression: str) -> Program:
    """The program of an expression with any type of result; raises CompileError."""
    return _compile(expression, selector=False)


def compile(expression: str) -> Program:
    """The program of a device selector; raises CompileError with the original's text."""
    return _compile(expression, selector=True)


def _compile(expression: str, *, selector: bool) -> Program:
    if any("\ud800" <= char <= "\udfff" for char in expression):
        # Half a surrogate pair is no text; Go reads a replacement character.
        expression = expression.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    with _deep_stack():
        WORK.left = WORK.LIMIT
        try:
            root = parse(expression)
            checker = Checker()
            checker.check(root)
            issues = checker.issues or validate(root, checker)
            if issues:
                raise refusal(expression, issues)
            output_type = checker.final_type(root)
            if selector:
                _require_bool(output_type)
            run = plan(root)
        except RecursionError:
            problem = Issue(-1, "max recursion depth exceeded")
            raise refusal(expression, [problem]) from None
        except AbortedError as error:
            raise CompileError(str(error)) from None
        reads = reads_of(root)
    deep = len(expression) > _SHALLOW
    return Program(expression, run, checker.slots, output_type, reads, deep=deep)


def _require_bool(output: Type) -> None:
    if output.kind is not Kind.BOOL and not types.is_dyn(output):
        rule = "must evaluate to bool or the unknown type"
        raise CompileError(f"{rule}, not {output.output_text}")
