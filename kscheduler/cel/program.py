"""Program: a compiled expression, ready to be evaluated on devices."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from kscheduler.cel import types
from kscheduler.cel.attributes import Run
from kscheduler.cel.checker import Checker
from kscheduler.cel.device import Device, reader
from kscheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    AbortedError,
    CelError,
    CompileError,
    EvaluationError,
    Issue,
)
from kscheduler.cel.frame import COST_LIMIT, Frame, no_device
from kscheduler.cel.parser import parse, refusal
from kscheduler.cel.planner import Planner
from kscheduler.cel.reads import Path, reads_of
from kscheduler.cel.types import Kind, Type
from kscheduler.cel.validators import validate
from kscheduler.cel.values import Optional, Value, type_name

# The parser's limits bound the depth of a tree; descent takes about ten Python frames per level.
_STACK = 20_000
# Levels of closures that need no more stack than a caller may be expected to leave: an evaluation
# takes about three frames per level.
_SHALLOW = 40
# Closures and constants: some 50 in usual expressions, up to 180 in those of many short names.
_BYTES_PER_CHARACTER = 200


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
    look at, as paths like ("attributes", domain, name) where a shorter one stands for all below it;
    `memory` is what the program may come to take, in bytes.
    """

    __slots__ = (
        "_deep",
        "_readers",
        "_run",
        "_slots",
        "expression",
        "memory",
        "output_type",
        "reads",
    )

    def __init__(
        self,
        expression: str,
        run: Run,
        slots: int,
        output_type: Type,
        reads: tuple[Path, ...],
        memory: int,
        *,
        deep: bool,
    ) -> None:
        self.expression = expression
        self.output_type = output_type
        self.reads = reads
        self.memory = memory
        self._readers = tuple(map(reader, reads))
        self._run = run
        self._slots = slots
        self._deep = deep

    def projection(self, device: Device) -> Hashable:
        """The parts of a device that the outcome depends on; equal ones give equal outcomes.

        So a caller evaluates once per distinct projection. Some 0.3 µs per path read.
        """
        return device.fault, *[read(device) for read in self._readers]

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
        # A device with a bad attribute fails here, whatever the expression.
        frame = Frame(device.fields, self._slots)
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
        if frame.cost > COST_LIMIT:
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
    inner = value
    while type(inner) is Optional and inner.present:
        inner = inner.value
    if inner is True or inner is False:
        return bool(inner)
    if type(inner) is Optional:
        reason = "optional.none() dereference"
    else:
        name = type_name(inner)
        short = name.rpartition(".")[2]
        reason = _NO_BOOL.get(name, f"type conversion error from '{short}' to 'bool'")
    found = type_name(value)
    raise EvaluationError(f"CEL result of type {found} could not be converted to bool: {reason}")


def compile_value(expression: str) -> Program:
    """The program of an expression with any type of result; raises CompileError."""
    return _compile(expression, selector=False)


def compile(expression: str) -> Program:
    """The program of a device selector; raises CompileError with the original's text."""
    return _compile(expression, selector=True)


def _compile(expression: str, *, selector: bool) -> Program:
    try:
        expression.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair is no text; Go reads a replacement character.
        expression = expression.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # For all constants together, so that compiling is bounded as evaluating is.
    budget = no_device()
    with _deep_stack():
        try:
            root = parse(expression)
            checker = Checker()
            checker.check(root)
            issues = checker.issues or validate(root, checker, budget)
            if issues:
                raise refusal(expression, issues)
            output_type = checker.final_type(root)
            if selector and output_type.kind is not Kind.BOOL and not types.is_dyn(output_type):
                rule = "must evaluate to bool or the unknown type"
                raise CompileError(f"{rule}, not {output_type.output_text}")
            planner = Planner(budget)
            run = planner.plan(root)
        except CompileError:
            raise
        except RecursionError:
            problem = Issue(-1, "max recursion depth exceeded")
            raise refusal(expression, [problem]) from None
        except CelError as error:
            raise CompileError(str(error)) from None
        except Exception as error:
            raise CompileError(f"internal error: {error}") from error
    memory = _BYTES_PER_CHARACTER * len(expression) + sum(p.memory for p in planner.patterns)
    reads = reads_of(root)
    deep = planner.height > _SHALLOW
    return Program(expression, run, checker.slots, output_type, reads, memory, deep=deep)
