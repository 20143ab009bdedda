"""Kubernetes quantities: `500m`, `1.5Gi`, `1e3`, exactly.

Every quantity is a whole number of nano-units, because parsing rounds anything finer up; so one
Python integer holds it without loss, and sums and comparisons are integer arithmetic.

Mirrors apimachinery/pkg/api/resource. Differs: a value beyond 64 bits saturates at the ends of
int64, where upstream wraps around or yields 0; a suffix beyond `E` keeps its value when formatted;
exponents are clamped to ±1000 and numbers to 1000 digits, so that no text can cost much.
"""

import re
from dataclasses import dataclass, field
from enum import Enum

from kscheduler.api.meta import Quantity
from kscheduler.caches import ForShortTexts
from kscheduler.errors import KschedulerError

NANO = 10**9
MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

_FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_SUFFIX_WRONG = "unable to parse quantity's suffix"
_NUMBER_WRONG = "unable to parse numeric part of quantity"

# More lenient than the expression in the error text, as upstream's scanner is: `Ki` is zero,
# though `Pi`, which needs big numbers, is not a number.
_PARTS = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)

_MAX_EXPONENT = 1000
_MAX_DIGITS = 1000
# Digits up to which upstream computes in 64 bits; only then may a text keep its spelling.
_DECIMAL_DIGITS = 18
_BINARY_DIGITS = 15
# Usual texts have up to 12 characters; an amount may have 1000 digits, which are 450 bytes.
_remember = ForShortTexts("quantities", entries=4096, longest=32)
CACHES = (_remember,)


class QuantityError(KschedulerError, ValueError):
    """Raised for a text that is no quantity; the wording is upstream's."""


class Format(Enum):
    """The notation of a quantity, in which its sum is written back."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Amount:
    """A parsed quantity. Equality and order are those of the amount, not of its notation."""

    nanos: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)
    # The text it came from, when that already was canonical enough for upstream to keep.
    spelling: str = field(default="", compare=False, repr=False)

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return whole(self.nanos)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded away from zero."""
        return milli(self.nanos)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __float__(self) -> float:
        return self.nanos / NANO

    def __str__(self) -> str:
        return self.spelling or _canonical(self.nanos, self.format)


def whole(nanos: int) -> int:
    """Nano-units as whole units, away from zero, within int64."""
    return _saturated(_divided(nanos, NANO))


def milli(nanos: int) -> int:
    """Nano-units as milli-units, away from zero, within int64."""
    return _saturated(_divided(nanos, 10**6))


@_remember
def parse(quantity: Quantity) -> Amount:
    """The amount a quantity stands for; a JSON number is read by its usual text."""
    text = quantity if isinstance(quantity, str) else str(quantity)
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        raise QuantityError(_FORMAT_WRONG)
    sign, integer, fraction, suffix = match.groups(default="")
    if len(integer) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(_NUMBER_WRONG)
    form, power = _interpret(suffix)
    digits = integer.lstrip("0") or "0"
    # Upstream reads short texts without big numbers, which it does a little differently.
    if form is Format.BINARY_SI:
        short = not fraction and len(digits) + power * 3 // 10 < _BINARY_DIGITS
    else:
        short = len(digits) + len(fraction) <= _DECIMAL_DIGITS and power - len(fraction) >= -9
    if not (short or integer or fraction):
        raise QuantityError(_NUMBER_WRONG)
    # Nano-units of mantissa · 10^-decimals · (2 or 10)^power, rounded up.
    mantissa, decimals = int(digits + fraction), len(fraction)
    if form is Format.BINARY_SI:
        nanos = min(_divided((mantissa << power) * NANO, 10**decimals), MAX_INT64 * NANO)
    elif (shift := power - decimals + 9) >= 0:
        nanos = mantissa * 10**shift
    else:
        nanos = _divided(mantissa, 10**-shift)
    spelling = text if short and _looks_canonical(digits, fraction, form, power) else ""
    if form is Format.BINARY_SI and 0 < nanos < NANO:
        form = Format.DECIMAL_SI
    return Amount(-nanos if sign == "-" else nanos, form, spelling)


@_remember
def value(quantity: Quantity) -> int:
    """Whole units (bytes, devices, pods), rounded away from zero."""
    return whole(nano_value(quantity))


@_remember
def milli_value(quantity: Quantity) -> int:
    """Milli-units (CPU), rounded away from zero."""
    return milli(nano_value(quantity))


@_remember
def nano_value(quantity: Quantity) -> int:
    """The exact amount in nano-units, for sums that are rounded only at the end."""
    return parse(quantity).nanos


def canonical(quantity: Quantity) -> str:
    """The text the API server would store: `0.5` → `500m`, `1024Mi` → `1Gi`."""
    return str(parse(quantity))


def compare(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1, whatever the two were written in."""
    a, b = nano_value(left), nano_value(right)
    return (a > b) - (a < b)


def _interpret(suffix: str) -> tuple[Format, int]:
    if suffix in _DECIMAL:
        return Format.DECIMAL_SI, _DECIMAL[suffix]
    if suffix in _BINARY:
        return Format.BINARY_SI, _BINARY[suffix]
    if (match := _EXPONENT.fullmatch(suffix)) is None or len(suffix) > _MAX_DIGITS:
        raise QuantityError(_SUFFIX_WRONG)
    exponent = int(match[1])
    return Format.DECIMAL_EXPONENT, max(-_MAX_EXPONENT, min(exponent, _MAX_EXPONENT))


def _divided(number: int, divisor: int) -> int:
    quotient = -(-abs(number) // divisor)
    return quotient if number >= 0 else -quotient


def _saturated(number: int) -> int:
    return max(MIN_INT64, min(number, MAX_INT64))


def _looks_canonical(digits: str, fraction: str, form: Format, power: int) -> bool:
    """Upstream keeps the spelling of what it finds canonical at a glance (`1.500`, `+4Mi`)."""
    if form is Format.BINARY_SI:
        return int(digits) & 7 != 0
    shifted = digits + fraction
    whole_step = (power - len(fraction)) % 3 == 0
    return whole_step and shifted[0] != "0" and not shifted.endswith("000")


def _canonical(nanos: int, form: Format) -> str:
    """The largest suffix that leaves a whole number: 1024 by 1024, or 1000 by 1000."""
    if nanos == 0:
        return "0"
    if form is Format.BINARY_SI and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        number, steps = nanos // NANO, 0
        while number % 1024 == 0 and steps < len(_BINARY_SUFFIX) - 1:
            number //= 1024
            steps += 1
        return f"{number}{_BINARY_SUFFIX[steps]}"
    # Anything else is decimal: also binary amounts that are small or not whole.
    number, exponent = nanos, -9
    largest = 3 * _MAX_EXPONENT if form is Format.DECIMAL_EXPONENT else 18
    while number % 1000 == 0 and exponent < largest:
        number //= 1000
        exponent += 3
    if form is Format.DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"
