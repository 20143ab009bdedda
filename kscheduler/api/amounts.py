"""Amounts of resources as people write them: `250m`, `3.2Gi`, `2`.

Amounts are numbers as decisions have them: milli-CPUs, bytes, or a count. Bytes are told in tenths
of their unit, in the direction in which the sentence stays true: what is asked for, or missing, is
rounded up, and what is left is rounded down, so that whoever asks for just that gets it.
"""

from __future__ import annotations

from kscheduler.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages

_UNITS = ((1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def rounded_down(resource: str, amount: int) -> int:
    """An amount that is easy to write and hardly smaller, never 0 if it was not."""
    if resource == CPU:
        step = 10 if amount >= 100 else 1
        return amount // step * step
    if not _is_bytes(resource):
        return amount
    unit = next((unit for unit, _ in _UNITS if amount >= unit), 1)
    # The least number of bytes that is shown as this many tenths.
    tenths = amount * 10 // unit
    return -(-tenths * unit // 10)


def at_least(resource: str, amount: int) -> str:
    """The amount, rounded up: what is asked for or missing."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if not _is_bytes(resource):
        return str(amount)
    for unit, suffix in _UNITS:
        if amount >= unit:
            # The least number of tenths that is not less once it is rounded up to bytes.
            whole, tenth = divmod((amount - 1) * 10 // unit + 1, 10)
            return f"{whole}.{tenth}{suffix}" if tenth else f"{whole}{suffix}"
    return str(amount)


def at_most(resource: str, amount: int) -> str:
    """The amount, rounded down: what is left. Below zero, as nodes may be overcommitted, it is
    rounded away from it.
    """
    if amount < 0:
        return f"-{at_least(resource, -amount)}"
    # A node's free CPU is told as it is: it has a unit that is fine enough.
    return at_least(resource, amount if resource == CPU else rounded_down(resource, amount))


def _is_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or is_hugepages(resource)
