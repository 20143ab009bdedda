"""Amounts of resources as people write them: `250m`, `3.2Gi`, `2`.

Amounts are numbers as decisions have them: milli-CPUs, bytes, or a count. Bytes are told in tenths
of their unit, in the direction in which the sentence stays true: what is asked for, or missing, is
rounded up, and what is left is rounded down, so that whoever asks for just that gets it.
"""

from __future__ import annotations

from kscheduler.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages

BYTE_UNITS = (("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def rounded_down(resource: str, amount: int) -> int:
    """An amount that is easy to write and hardly smaller, never 0 if it was not."""
    if resource == CPU:
        step = 10 if amount >= 100 else 1
        return amount // step * step
    if not _is_bytes(resource):
        return amount
    unit = next((unit for _, unit in BYTE_UNITS if amount >= unit), 1)
    # The least number of bytes that is shown as this many tenths.
    tenths = amount * 10 // unit
    return -(-tenths * unit // 10)


def at_least(resource: str, amount: int) -> str:
    """The amount, rounded up: what is asked for or missing."""
    if not _is_bytes(resource):
        return exact(resource, amount)
    for suffix, unit in BYTE_UNITS:
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


def exact(resource: str, amount: int) -> str:
    """The amount as it is, in the largest unit that leaves a whole number."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if amount and _is_bytes(resource):
        for suffix, unit in BYTE_UNITS:
            if not amount % unit:
                return f"{amount // unit}{suffix}"
    return str(amount)


def _is_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or is_hugepages(resource)
