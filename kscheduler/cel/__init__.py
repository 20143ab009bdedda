"""CEL: device selectors, evaluated as Kubernetes 1.37 evaluates them.

In flows the text of an expression, once: `compile` gives a `Program`, or raises CompileError in
cel-go's words. Then devices flow in, by `device_of` from the structs of the API, and
`Program.matches` gives a bool, or raises EvaluationError or AbortedError in cel-go's words. The
outcome depends on `Program.projection` of a device only, so devices that look alike to an
expression need one evaluation. The package knows nothing of claims or the scheduler.

parser → macros → checker → validators → planner: open `program` first, which tells that story in
one function. The planner makes closures, so an evaluation walks no tree; `frame` counts cel-go's
cost units, and beyond 1,000,000 of them an evaluation is aborted. Invariant: whatever the
expression and the device, only errors of `errors` come out, and time and memory stay bounded.

A closure per node was chosen over generating Python source: about twice the time per node, but
nothing of an expression's text is ever executed.
"""

from kscheduler.caches import Cache
from kscheduler.cel import quantities, regexes, versions
from kscheduler.cel.device import Device, device_of
from kscheduler.cel.errors import AbortedError, CelError, CompileError, EvaluationError
from kscheduler.cel.program import Program, compile, compile_value

# Shared by all programs, since devices have few distinct values.
CACHES: tuple[Cache, ...] = (*quantities.CACHES, *regexes.CACHES, *versions.CACHES)

__all__ = [
    "CACHES",
    "AbortedError",
    "CelError",
    "CompileError",
    "Device",
    "EvaluationError",
    "Program",
    "compile",
    "compile_value",
    "device_of",
]
