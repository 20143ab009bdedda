"""Selectors: CEL expressions, compiled once, evaluated once per distinct value of what they read.

Mirrors k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kscheduler import cel
from kscheduler.api.resource import DeviceAttribute
from kscheduler.caches import BoundedCache, Cache, size_of
from kscheduler.cel import types as cel_types
from kscheduler.cel.values import Uint
from kscheduler.cel.versions import Semver
from kscheduler.dra.devices import DeviceType

MAX_PROGRAM_BYTES = 4 << 20
MAX_ANSWER_BYTES = 4 << 20

_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)


class Failed(str):
    """The text of an error, in place of an answer."""

    __slots__ = ()


class NotCompiled(Failed):
    """The expression is refused."""

    __slots__ = ()


class Expressions:
    """Programs and their answers. One for the whole allocator."""

    def __init__(self) -> None:
        self._programs: BoundedCache[tuple[str, bool], cel.Program | NotCompiled] = BoundedCache(
            "dra_expressions", MAX_PROGRAM_BYTES
        )
        self._answers: BoundedCache[Hashable, Any] = BoundedCache("dra_answers", MAX_ANSWER_BYTES)
        self.caches: tuple[Cache, ...] = (self._programs, self._answers, *cel.CACHES)

    def matches(self, expression: str, device: DeviceType) -> bool | Failed:
        """Whether a selector accepts a device, or what failed, in cel-go's words."""
        return self._answer(expression, device, derived=False)

    def value(self, expression: str, device: DeviceType) -> DeviceAttribute | Failed:
        """The attribute that an expression derives from a device, or what failed."""
        return self._answer(expression, device, derived=True)

    def _answer(self, expression: str, device: DeviceType, *, derived: bool) -> Any:
        program = self._compiled(expression, derived=derived)
        if isinstance(program, NotCompiled):
            return program
        key = (expression, derived, program.projection(device.in_cel))
        answer = self._answers.get(key)
        if answer is None:
            try:
                if derived:
                    answer = _as_attribute(program.evaluate(device.in_cel))
                else:
                    answer = program.matches(device.in_cel)
            except cel.CelError as error:
                text = str(error)
                hint = _HINT if "no such key:" in text and not derived else ""
                answer = Failed(text + hint)
            self._answers.put(key, answer, size_of(key, self._answers.largest))
        return answer

    def _compiled(self, expression: str, *, derived: bool) -> cel.Program | NotCompiled:
        known = self._programs.get((expression, derived))
        if known is None:
            try:
                if derived:
                    known = cel.compile_value(expression)
                    _require_attribute_type(known.output_type)
                else:
                    known = cel.compile(expression)
            except cel.CompileError as error:
                known = NotCompiled(str(error))
            size = known.memory if isinstance(known, cel.Program) else len(known)
            self._programs.put((expression, derived), known, size + len(expression))
        return known


_SCALARS = (cel_types.BOOL, cel_types.INT, cel_types.STRING, cel_types.ANY, cel_types.DYN)


def _require_attribute_type(output: cel_types.Type) -> None:
    scalars = (*_SCALARS, cel_types.SEMVER)
    if output in scalars:
        return
    if output.kind is cel_types.Kind.LIST and output.parameters[0] in scalars:
        return
    raise cel.CompileError(
        "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these "
        f"scalars, not {output.output_text}"
    )


# Fields of DeviceAttribute by the type of a value: of one, and of a list.
_FIELDS: dict[type, tuple[str, str, str]] = {
    bool: ("bool_value", "bool_values", "bool"),
    int: ("int_value", "int_values", "int"),
    str: ("string_value", "string_values", "string"),
    Semver: ("version_value", "version_values", "semver"),
}
_GO_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int64",
    str: "string",
    float: "float64",
    bytes: "[]uint8",
    Uint: "uint64",
    Semver: "semver.Version",
}


def _as_attribute(value: Any) -> DeviceAttribute:
    if fields := _FIELDS.get(type(value)):
        return DeviceAttribute(**{fields[0]: _plain(value)})
    if not isinstance(value, list | tuple):
        raise cel.EvaluationError(f"unsupported CEL return type: {_go_type(value)}")
    if not value:
        return DeviceAttribute(string_values=())
    of_list = _FIELDS.get(type(value[0]))
    if of_list is None:
        raise cel.EvaluationError(f"unsupported list element type: {_go_type(value[0])}")
    for position, element in enumerate(value):
        if type(element) is not type(value[0]):
            raise cel.EvaluationError(
                f"expected list element at index {position} to be {of_list[2]}, "
                f"got {_go_type(element)}"
            )
    values: dict[str, Any] = {of_list[1]: tuple([_plain(one) for one in value])}
    return DeviceAttribute(**values)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Semver) else value


def _go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), type(value).__name__)
