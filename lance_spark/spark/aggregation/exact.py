"""Arithmetic on decimals with Spark's results: nothing is rounded, and a bound on the values proves that nothing overflows.

Arrow's kernels for 128-bit decimals do not check for overflow, and their result types only count digits. Here all decimals have 38 digits,
and the bound decides whether 128 bits suffice. If not, values are calculated in 256 bits and checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidOptionError

DIGITS = 38
MOST = 10**DIGITS - 1


@dataclass(frozen=True)
class Exact:
    """Integers, or decimals of type decimal128(38, scale); a scalar is the same number for each row.

    `most` is a bound on their absolute values, for decimals without the scale.
    """

    values: pa.Array | pa.Scalar
    most: int

    def tightened(self) -> Exact:
        """The same values with the smallest bound."""
        return self if isinstance(self.values, pa.Scalar) else Exact(self.values, largest(self.values))


def largest(values: pa.Array | pa.ChunkedArray) -> int:
    """The largest absolute value; 0 if there is none. For decimals without the scale."""
    return max((abs(_integer(x)) for x in pc.min_max(values).values() if x.is_valid), default=0)


def _integer(number: pa.Scalar) -> int:
    value = number.as_py()
    if isinstance(value, int):
        return value
    # Decimal.scaleb would round to the digits of the current context.
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def from_column(values: pa.Array) -> Exact:
    """The values of a column of integers or decimals."""
    if pa.types.is_decimal(values.type):
        return Exact(_labelled(values, DIGITS), 10**values.type.precision - 1)
    return Exact(values.cast(pa.int64()), 1 << (values.type.bit_width - 1))


def constant(number: int, scale: int) -> Exact:
    """The decimal `number` / 10**`scale`."""
    whole = pa.array([number], pa.decimal128(DIGITS, 0))
    return Exact(whole.view(pa.decimal128(DIGITS, scale))[0], abs(number))


def to_decimal(a: Exact, scale: int) -> Exact:
    """The same numbers with this scale, which is not smaller than theirs."""
    if pa.types.is_integer(a.values.type):
        a = Exact(_labelled(a.values.cast(pa.decimal128(19, 0)), DIGITS), a.most)
    missing = scale - a.values.type.scale
    return multiply(a, constant(10**missing, missing)) if missing else a


def multiply(a: Exact, b: Exact) -> Exact:
    """The products. Raises InvalidOptionError if one has more than 38 digits."""
    if a.most * b.most > MOST:
        a, b = a.tightened(), b.tightened()
    if a.most * b.most <= MOST:
        # Arrow requires that the digits of the types fit, not those of the values.
        return Exact(_labelled(pc.multiply(_labelled(a.values, 18), _labelled(b.values, 19)), DIGITS), a.most * b.most)
    return _checked(pc.multiply(_wide(a.values, DIGITS), _wide(b.values, DIGITS - 1)))


def add(a: Exact, b: Exact) -> Exact:
    """The sums. Raises InvalidOptionError if one has more than 38 digits."""
    scale = max(a.values.type.scale, b.values.type.scale)
    a, b = to_decimal(a, scale), to_decimal(b, scale)
    if a.most + b.most > MOST:
        a, b = a.tightened(), b.tightened()
    if a.most + b.most <= MOST:
        return Exact(pc.add(_labelled(a.values, 37), _labelled(b.values, 37)), a.most + b.most)
    return _checked(pc.add(_wide(a.values, DIGITS), _wide(b.values, DIGITS)))


def negate(a: Exact) -> Exact:
    """The values with the other sign."""
    return Exact(pc.negate(a.values), a.most)


def _labelled(values: pa.Array | pa.Scalar, digits: int) -> pa.Array | pa.Scalar:
    """The same numbers as a type of this precision, which may be less than they have."""
    if isinstance(values, pa.Scalar):
        return _labelled(pa.array([values.as_py()], values.type), digits)[0]
    kind = pa.decimal128 if pa.types.is_decimal128(values.type) else pa.decimal256
    return values.view(kind(digits, values.type.scale))


def _wide(values: pa.Array | pa.Scalar, digits: int) -> pa.Array | pa.Scalar:
    return _labelled(values.cast(pa.decimal256(DIGITS, values.type.scale)), digits)


def _checked(wide: pa.Array) -> Exact:
    most = largest(wide)
    if most > MOST:
        raise InvalidOptionError(
            f"arithmetic overflow: a result has more than the {DIGITS} digits of Spark's decimals; "
            "cast the operands to decimals of fewer digits, or use try_multiply, try_add or try_subtract"
        )
    return Exact(wide.cast(pa.decimal128(DIGITS, wide.type.scale)), most)
