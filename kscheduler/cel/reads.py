"""Reads: the parts of a device that an expression can look at.

What is found is an upper bound: an expression may look at less, but at nothing else. Names are
followed through selections, indices, presence tests and the variables of `cel.bind`; where a name
is computed, or a map is passed along as a whole, all of the map is read.
"""

from __future__ import annotations

from typing import TypeAlias

from kscheduler.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    Literal,
    Select,
    Variable,
    children,
)

Path: TypeAlias = tuple[str, ...]
# ("attributes", domain, name) is the longest: what is inside of an attribute belongs to it.
_LONGEST = 3


def reads_of(root: Expr) -> tuple[Path, ...]:
    """Paths like ("attributes", domain, name), sorted; a shorter one stands for all below it."""
    found: set[Path] = set()
    # Variables that stand for a part of the device.
    bound: dict[Variable, Path] = {}
    pending = [root]
    shared = set()
    while pending:
        node = pending.pop()
        if node.shared:
            if id(node) in shared:
                continue
            shared.add(id(node))
        if isinstance(node, Comprehension) and node.kind == "bind":
            # The variable is computed when it is read, so binding it reads nothing yet.
            path = _path(node.init, bound, pending)
            if path is None or None in path:
                pending.append(node.init)
            else:
                bound[node.variables[2]] = path  # type: ignore[assignment]
            pending.append(node.result)
            continue
        path = _path(node, bound, pending)
        if path is None:
            pending.extend(children(node))
        else:
            known = path.index(None) if None in path else len(path)
            found.add(path[: min(known, _LONGEST)])  # type: ignore[arg-type]
    shortest = (p for p in found if not any(p[:n] in found for n in range(len(p))))
    return tuple(sorted(shortest))


def _path(
    node: Expr, bound: dict[Variable, Path], pending: list[Expr]
) -> tuple[str | None, ...] | None:
    """Names from the device to the node, None for computed ones; None if it is no part of it.

    Expressions that compute a name are put to those pending.
    """
    steps: list[str | None] = []
    computed = []
    while True:
        if isinstance(node, Select) and node.constant is None:
            steps.append(node.name)
            node = node.operand
        elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
            index = node.args[1]
            if isinstance(index, Literal) and isinstance(index.value, str):
                steps.append(index.value)
            else:
                steps.append(None)
                computed.append(index)
            node = node.args[0]
        else:
            break
    if not isinstance(node, Ident) or node.constant is not None:
        return None
    if node.variable is None:
        start: Path = ()
    elif node.variable in bound:
        start = bound[node.variable]
    else:
        return None
    pending.extend(computed)
    return (*start, *reversed(steps))
