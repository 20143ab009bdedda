"""Amounts of resources as people write them: `250m`, `3.2Gi`."""

from __future__ import annotations

from kscheduler.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages

_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def rounded_down(resource: str, amount: int) -> int:
    """An amount that is easy to write and hardly smaller, never 0 if it was not."""
    step = 1
    if resource == CPU:
        step = 10 if amount >= 100 else 1
    elif _is_bytes(resource):
        unit = next((unit for unit, _ in _UNITS if amount >= unit), 1)
        # The least number of bytes that is shown as this many tenths.
        tenths = amount * 10 // unit
        return -(-tenths * unit // 10)
    return amount // step * step


def text_of(resource: str, amount: int) -> str:
    """Milli-CPUs, bytes or a count; bytes to a tenth of their unit, rounded up."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if not _is_bytes(resource):
        return str(amount)
    for unit, suffix in _UNITS:
        # The least number of tenths that is not less once it is rounded up to bytes.
        tenths = (amount - 1) * 10 // unit + 1
        if amount >= unit:
            whole, tenth = divmod(tenths, 10)
            return f"{whole}.{tenth}{suffix}" if tenth else f"{whole}{suffix}"
    return str(amount)


def _is_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or is_hugepages(resource)
