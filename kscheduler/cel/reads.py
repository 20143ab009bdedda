"""Reads: the parts of a device that an expression can look at."""

from __future__ import annotations

from typing import TypeAlias

from kscheduler.cel.syntax import Call, Expr, Ident, Literal, Select
from kscheduler.cel.validators import children

Path: TypeAlias = tuple[str, ...]


def reads_of(root: Expr) -> frozenset[Path]:
    """Paths like ("attributes", domain, name); a shorter one stands for all below it."""
    found: set[Path] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        path = _path(node)
        if path is None:
            pending.extend(children(node))
            continue
        found.add(path[:3])
        pending.extend(_indices(node))
    return frozenset(p for p in found if not any(p[:n] in found for n in range(len(p))))


def _path(node: Expr) -> Path | None:
    """The path of constant names from the device, as far as they go; None if not from it."""
    steps: list[str | None] = []
    while True:
        if isinstance(node, Select):
            steps.append(node.name)
            node = node.operand
        elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
            index = node.args[1]
            constant = isinstance(index, Literal) and isinstance(index.value, str)
            steps.append(index.value if constant else None)  # type: ignore[union-attr]
            node = node.args[0]
        else:
            break
    if not isinstance(node, Ident) or node.variable is not None or node.constant is not None:
        return None
    steps.reverse()
    path: list[str] = []
    for step in steps:
        if step is None:
            break
        path.append(step)
    return tuple(path)


def _indices(node: Expr) -> list[Expr]:
    """Expressions that compute an index on the way to the device."""
    found = []
    while isinstance(node, Select | Call):
        if isinstance(node, Select):
            node = node.operand
        else:
            found.append(node.args[1])
            node = node.args[0]
    return found
