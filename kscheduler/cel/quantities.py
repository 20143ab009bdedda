"""Quantities in expressions: `quantity("40Gi")` and the capacities of a device.

Mirrors apimachinery's Quantity where expressions can see through to its representation: a mantissa
with a decimal scale, or a big decimal once a number is too long. isInteger, asInteger and
asApproximateFloat depend on it, not on the amount.
"""

from __future__ import annotations

import math
import re

from kscheduler.api import quantity as api_quantity
from kscheduler.caches import BoundedCache
from kscheduler.cel import types
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.values import INT_MAX, INT_MIN, Opaque, Value, register

_NANO_SCALE = -9
_PARTS = re.compile(r"[+-]?([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_BEYOND_EXA = re.compile(r"(-?[0-9]+?)(?:000)+E")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@register
class Quantity(Opaque):
    """An amount with its representation: `unscaled` times ten to the `scale`.

    `computed` marks a result of add or sub: equality with one on the right is an error, because
    cel-go's results are pointers where its comparison expects a value.
    """

    __slots__ = ("amount", "big", "computed", "scale", "unscaled")
    celtype = types.QUANTITY
    go_name = "cel.Quantity"

    def __init__(
        self,
        amount: api_quantity.Amount,
        unscaled: int,
        scale: int,
        *,
        big: bool,
        computed: bool = False,
    ) -> None:
        self.amount = amount
        self.unscaled = unscaled
        self.scale = scale
        self.big = big
        self.computed = computed

    def equals(self, other: Value) -> bool:
        if type(other) is not Quantity or other.computed:
            raise no_such_overload()
        return self.amount.nanos == other.amount.nanos

    def __str__(self) -> str:
        text = str(self.amount)
        # Upstream has no suffix beyond E and leaves it out together with the zeros.
        beyond = _BEYOND_EXA.fullmatch(text)
        return beyond[1] if beyond else text

    def is_integer(self) -> bool:
        return self._integer() is not None

    def as_integer(self) -> int:
        value = self._integer()
        if value is None:
            raise EvaluationError("cannot convert value to integer")
        return value

    def _integer(self) -> int | None:
        if self.big or self.scale < 0:
            return None
        value = self.unscaled * 10**self.scale
        return value if INT_MIN <= value <= INT_MAX else None

    def as_approximate_float(self) -> float:
        try:
            base = float(self.unscaled)
        except OverflowError:
            base = math.inf if self.unscaled > 0 else -math.inf
        if self.scale == 0:
            return base
        # Go's Pow10 is 0 or infinite outside of the range of doubles.
        power = math.inf if self.scale > 308 else float(f"1e{self.scale}")
        return base * power

    def sign(self) -> int:
        return (self.amount.nanos > 0) - (self.amount.nanos < 0)

    def plus(self, other: Quantity, factor: int = 1) -> Quantity:
        """The sum, or with -1 the difference; it keeps the finer scale of the two."""
        amount = self.amount + other.amount if factor == 1 else self.amount - other.amount
        # The left notation stays unless the left amount is zero.
        added = other.unscaled * factor
        if not (self.big or other.big):
            if added == 0:
                return Quantity(amount, self.unscaled, self.scale, big=False, computed=True)
            if self.unscaled == 0:
                return Quantity(amount, added, other.scale, big=False, computed=True)
            scale = min(self.scale, other.scale)
            left = self.unscaled * 10 ** (self.scale - scale)
            right = added * 10 ** (other.scale - scale)
            if all(INT_MIN <= n <= INT_MAX for n in (left, right, left + right)):
                return Quantity(amount, left + right, scale, big=False, computed=True)
        scale = min(self.scale, other.scale)
        total = self.unscaled * 10 ** (self.scale - scale) + added * 10 ** (other.scale - scale)
        return Quantity(amount, total, scale, big=True, computed=True)


def whole(number: int) -> Quantity:
    """The quantity of an integer."""
    exponent = api_quantity.Format.DECIMAL_EXPONENT
    amount = api_quantity.Amount(number * api_quantity.NANO, exponent)
    return Quantity(amount, number, 0, big=False)


def _exponent(text: str) -> int:
    """The written exponent within ±1000, so that no text can cost much."""
    return max(-1000, min(1000, int(text[:12])))


def parse(text: str) -> Quantity:
    """The quantity of a text; raises EvaluationError with upstream's words."""
    found = _parsed.get(text)
    if found is None:
        found = _parse(text)
        # Texts are ASCII, and kept in the amount as well.
        _parsed.put(text, found, 400 + 2 * len(text))
    return found


_parsed: BoundedCache[str, Quantity] = BoundedCache("cel_quantities", 2 << 20)
CACHES = (_parsed,)


def _parse(text: str) -> Quantity:
    try:
        amount = api_quantity.parse(text)
    except api_quantity.QuantityError as error:
        raise EvaluationError(str(error)) from None
    found = _PARTS.fullmatch(text)
    assert found is not None  # api.quantity accepts nothing else
    integer, fraction, suffix = found.groups(default="")
    digits = integer.lstrip("0") or "0"
    negative = text.startswith("-")
    if suffix in _BINARY:
        exponent = _BINARY[suffix]
        precise = not fraction and 15 - len(digits) - int(exponent * 0.3) - 1 >= 0
        unscaled, scale = int(digits) << exponent, 0
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else _exponent(suffix[1:])
        precise = len(digits) + len(fraction) <= 18
        unscaled, scale = int(digits + fraction), exponent - len(fraction)
    if precise and scale >= _NANO_SCALE and unscaled <= INT_MAX:
        return Quantity(amount, -unscaled if negative else unscaled, scale, big=False)
    return Quantity(amount, amount.nanos, _NANO_SCALE, big=True)
