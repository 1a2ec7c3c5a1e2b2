"""Comparing many queries with codes of RQ.

A product of matrices tells the distances nearly. How far they may be from those that a query alone is told, which are sums
of rounded numbers, is known; and only for rows that may be among the nearest, that sum is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.index.vector.best import keep_if_near
from lance_spark.index.vector.codes import GROUP, Codes
from lance_spark.kernels.kernel import kernel, summing

LEAST_QUERIES = 8
"""Fewer queries are compared one by one: the codes need not be decoded for them."""

_SLACK = 1.01
_FLOAT_ERROR = 2.0**-18
"""The share of the sum of absolute products by which a sum of products of float32 may be wrong; many times what it is."""

CONSTANT, SHARE, ERROR, SUM_ERROR, STEP, LOW, TOTAL = range(7)
"""The rows of the numbers of queries."""
ADD, SCALE = range(2)
"""The columns of the factors of a row."""


@dataclass(frozen=True)
class Kept:
    """The nearest rows of each query, as `keep_nearest_of_each` keeps them, within `least` and `bound` (NaN: there is none)."""

    least: float
    bound: float
    distances: np.ndarray
    rows: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class ManyQueries:
    """Rotated queries with their sums of four numbers for all signs: as they are, and rounded to steps."""

    rotated: np.ndarray
    bits: int
    exact: np.ndarray
    rounded: np.ndarray
    steps: np.ndarray
    lows: np.ndarray
    totals: np.ndarray
    errors: np.ndarray
    sum_errors: np.ndarray

    def add_nearest(
        self,
        queries: np.ndarray,
        constants: np.ndarray,
        shares: np.ndarray,
        codes: Codes,
        rows: np.ndarray,
        which: np.ndarray,
        kept: Kept,
    ) -> None:
        """Add those of the rows at `which`, of a whole partition with these codes, that are near to each of the `queries`, their numbers.

        A distance is `constants + shares * add + scale * product`, with the factors of the row.
        """
        signs = np.ascontiguousarray(codes.values.T)
        further = np.ascontiguousarray(codes.factors["ex"].T) if self.bits > 1 else np.empty((0, 0), np.uint8)
        own = (
            constants,
            shares,
            self.errors[queries],
            self.sum_errors[queries],
            self.steps[queries],
            self.lows[queries],
            self.totals[queries],
        )
        of_query = np.stack(own).astype(np.float32)
        of_row = np.stack([codes.factors["add"], codes.factors["scale"]], axis=1)
        add_near(
            np.ascontiguousarray(self.rotated[queries].T),
            of_query,
            of_row,
            signs,
            further,
            self.bits,
            self.exact,
            self.rounded,
            self.rotated,
            rows,
            which,
            queries,
            kept.least,
            kept.bound,
            kept.distances,
            kept.rows,
            kept.counts,
        )


def many_queries(rotated: np.ndarray, bits: int, steps: int) -> ManyQueries:
    """Queries as they are compared with codes of so many bits, whose sums of four numbers are rounded to `steps`."""
    parts = -(-rotated.shape[1] // 8)
    exact = np.empty((len(rotated), 2 * parts, 16), np.float32)
    rounded = np.empty_like(exact)
    step, low = np.empty(len(rotated), np.float32), np.empty(len(rotated), np.float32)
    sums_of_four(rotated, steps, exact, rounded, step, low)
    scale = float(1 << (bits - 1))
    # Each of the sums of four is rounded by half a step at most.
    sum_errors = _FLOAT_ERROR * 2 * scale * np.abs(rotated).sum(axis=1)
    errors = scale * parts * step * _SLACK + sum_errors
    totals = rotated.sum(axis=1)
    return ManyQueries(rotated, bits, exact, rounded, step, low, totals, errors.astype(np.float32), sum_errors.astype(np.float32))


@kernel
def sums_of_four(rotated: np.ndarray, steps: int, exact: np.ndarray, rounded: np.ndarray, step: np.ndarray, low: np.ndarray) -> None:
    """Store the sums of each four numbers of a query by their signs, and these rounded to steps from the lowest of them.

    As `sums_of_signs` has them, to the last bit.
    """
    for q in range(rotated.shape[0]):
        numbers, own = rotated[q], exact[q]
        for four in range(own.shape[0]):
            table = own[four]
            table[0] = np.float32(0)
            for d in range(4):
                number = numbers[4 * four + d] if 4 * four + d < len(numbers) else np.float32(0)
                for signs_before in range(1 << d):
                    table[signs_before + (1 << d)] = table[signs_before] + number
        lowest, highest = own.min(), own.max()
        low[q] = lowest
        step[q] = (highest - lowest) / np.float32(steps)
        per_step = np.float32(1) / step[q] if step[q] > 0 else np.float32(0)
        for four in range(own.shape[0]):
            for signs in range(16):
                rounded[q, four, signs] = np.rint((own[four, signs] - lowest) * per_step)


@kernel
def decode(signs: np.ndarray, further: np.ndarray, bits: int, start: int, out: np.ndarray) -> None:
    """Store in `out` (float32), a column for each vector from `start` on, the numbers that codes stand for.

    The codes have a column for each vector, too. With `bits` further bits, the numbers are multiples of a half.
    """
    middle = np.float32((1 << bits) - 0.5)
    one = np.float32(1 << bits)
    for d in range(out.shape[0]):
        row, of_signs, mask = out[d], signs[d >> 3, start : start + out.shape[1]], np.uint8(1 << (d & 7))
        for i in range(out.shape[1]):
            row[i] = (one if of_signs[i] & mask else np.float32(0)) - middle
        if bits > 0:
            own = further[d, start : start + out.shape[1]]
            for i in range(out.shape[1]):
                row[i] += np.float32(own[i])


@summing
def add_near_products(rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Add to `out` the products of the columns of two matrices of float32. BLAS would start threads for each partition."""
    size, count = columns.shape
    whole, fours = out.shape[0] // 4 * 4, size // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, e = out[i], out[i + 1], out[i + 2], out[i + 3]
        for d in range(0, fours, 4):  # a number of a column is read once for four rows, and a sum once for four dimensions
            first, second, third, fourth = columns[d], columns[d + 1], columns[d + 2], columns[d + 3]
            of = rows[d : d + 4, i : i + 4]
            a0, a1, a2, a3 = of[0, 0], of[1, 0], of[2, 0], of[3, 0]
            b0, b1, b2, b3 = of[0, 1], of[1, 1], of[2, 1], of[3, 1]
            c0, c1, c2, c3 = of[0, 2], of[1, 2], of[2, 2], of[3, 2]
            e0, e1, e2, e3 = of[0, 3], of[1, 3], of[2, 3], of[3, 3]
            for j in range(count):
                x, y, z, w = first[j], second[j], third[j], fourth[j]
                a[j] += a0 * x + a1 * y + a2 * z + a3 * w
                b[j] += b0 * x + b1 * y + b2 * z + b3 * w
                c[j] += c0 * x + c1 * y + c2 * z + c3 * w
                e[j] += e0 * x + e1 * y + e2 * z + e3 * w
    for i in range(out.shape[0]):
        for d in range(fours if i < whole else 0, size):
            for j in range(count):
                out[i, j] += rows[d, i] * columns[d, j]


@kernel
def sum_of_signs(signs: np.ndarray, i: int, sums: np.ndarray) -> np.float32:
    """The sum of the numbers of a query that have a sign in the column i of `signs`; `sums` are those of each four of them."""
    total = np.float32(0)
    for part in range(signs.shape[0]):
        code = signs[part, i]
        total += sums[2 * part, code & 15] + sums[2 * part + 1, code >> 4]
    return total


@kernel
def add_near(
    columns: np.ndarray,
    of_query: np.ndarray,
    of_row: np.ndarray,
    signs: np.ndarray,
    further: np.ndarray,
    bits: int,
    exact: np.ndarray,
    rounded: np.ndarray,
    rotated: np.ndarray,
    rows: np.ndarray,
    which: np.ndarray,
    queries: np.ndarray,
    least: float,
    bound: float,
    heaps: np.ndarray,
    kept: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add rows to the heaps of queries, whose rotated numbers are the `columns`; see `ManyQueries.add_nearest`.

    The rows are decoded in groups, so that their products with the queries stay in the processor's cache.
    """
    room, parts, size = heaps.shape[1], signs.shape[0], rotated.shape[1]
    grouped = signs.shape[1] // GROUP * GROUP
    scale = np.float32(1 << (bits - 1))
    limits = np.full(len(queries), bound if bound == bound else np.inf, np.float32)
    for j in range(len(queries)):
        if counts[queries[j]] == room:
            limits[j] = heaps[queries[j], 0]
    decoded = np.empty((size, GROUP), np.float32)
    near = np.empty((GROUP, len(queries)), np.float32)
    constants, shares, errors = of_query[CONSTANT], of_query[SHARE], of_query[ERROR]
    start = stop = 0  # of the group that is decoded
    for i in which:
        if i >= stop:
            start = i // GROUP * GROUP
            stop = min(start + GROUP, signs.shape[1])
            decode(signs, further, bits - 1, start, decoded[:, : stop - start])
            near[:] = 0
            add_near_products(decoded, columns, near[: stop - start])
        at = i - start
        add, factor = of_row[i, ADD], of_row[i, SCALE]
        length, products = abs(factor), near[at]
        is_near = 0
        for j in range(len(limits)):
            is_near |= constants[j] + shares[j] * add + factor * products[j] - length * errors[j] <= limits[j]
        if not is_near:
            continue
        for j in range(len(limits)):
            base = constants[j] + shares[j] * add
            if base + factor * products[j] - length * errors[j] > limits[j]:
                continue
            q = queries[j]
            along = sum_of_signs(signs, i, exact[q])
            if i < grouped:
                sums = sum_of_signs(signs, i, rounded[q]) * of_query[STEP, j] + np.float32(2 * parts) * of_query[LOW, j]
                told = products[j] + scale * (sums - along)
                if base + factor * told - length * of_query[SUM_ERROR, j] > limits[j]:
                    continue
                along = sums
            along = along * scale - (scale - np.float32(0.5)) * of_query[TOTAL, j]
            if bits > 1:
                for d in range(size):
                    along = along + rotated[q, d] * np.float32(further[d, i])
            distance = base + factor * along
            counts[q] = keep_if_near(distance, rows[i], least, bound, heaps[q], kept[q], counts[q])
            if counts[q] == room:
                limits[j] = heaps[q, 0]
