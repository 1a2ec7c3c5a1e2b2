"""Pages are pruned by their bounds only if none of their values satisfies the condition."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.predicate import bind
from lance_spark.predicate.one_column import holds, over_values, without_not
from lance_spark.predicate.page_bounds import PageBounds, pages_that_may_hold
from lance_spark.predicate.regex import for_re2, of_like
from lance_spark.predicate.tree import And, Call, Expression, IsNull, Like, Literal, Not, Or
from lance_spark.schema.schema import Schema, from_arrow

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int16(), list(range(-300, 300, 7))),
    "float": (pa.float32(), [-math.inf, -2.5, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan]),
    "half": (pa.float16(), [-2.5, -0.0, 0.0, 1.0, 2.5, math.nan]),
    "text": (pa.string(), ["", "a", "ab", "abc", "abd", "b", "ba", "é", "zz"]),
    "bool": (pa.bool_(), [False, True]),
}


def pages(rng: random.Random, t: pa.DataType, values: list[Any]) -> tuple[list[pa.Array], PageBounds]:
    """Pages of values in order, some with nulls first, and their bounds as a BTREE index has them."""
    some = sorted((rng.choice(values) for _ in range(60)), key=lambda v: (v != v, v, math.copysign(1, v) if isinstance(v, float) else 0))
    found = [pa.array([*([None] * rng.randrange(2)), *some[i : i + 6]], t, from_pandas=False) for i in range(0, 60, 6)]
    lower, upper = (pa.array([p[i].as_py() for p in found], t, from_pandas=False) for i in (0, -1))
    return found, PageBounds(lower, upper)


def condition(rng: random.Random, schema: Schema, name: str, depth: int = 2) -> Expression:
    column = bind.column(schema, name)
    literals = [Literal(rng.choice(VALUES[name][1]), column.type) for _ in range(rng.choice([1, 3, 9]))]
    kind = rng.randrange(8 if depth else 6)
    if kind == 0:
        return bind.is_in(column, literals)
    if kind == 1:
        return IsNull(column)
    if kind == 2 and name == "text":
        text = rng.choice(["a", "ab", "b", "zzz"])
        if rng.random() < 0.3:
            return Call("startswith", (column, Literal(text, pa.string())), pa.bool_())
        return Like(
            column, of_like(text + rng.choice(["", "%", "_"]), "") if rng.random() < 0.7 else for_re2(text + rng.choice(["", "|zz"]))
        )
    if kind == 3 and name == "int":
        return bind.compare("<", column, Literal(rng.random() * 100, pa.float64()))
    if kind < 6:
        sides = (column, literals[0]) if rng.random() < 0.7 else (literals[0], column)
        return bind.compare(rng.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"]), *sides)
    parts = tuple(condition(rng, schema, name, depth - 1) for _ in range(2))
    return Not(parts[0]) if rng.random() < 0.3 else And(parts) if rng.random() < 0.5 else Or(parts)


@pytest.mark.parametrize("name", VALUES)
def test_a_pruned_page_has_no_value_that_satisfies_the_condition(name: str) -> None:
    rng = random.Random(name)
    schema = from_arrow(pa.schema([(key, t) for key, (t, _) in VALUES.items()]))
    pruned = 0
    for _ in range(300):
        found, bounds = pages(rng, *VALUES[name])
        wanted = over_values(without_not(condition(rng, schema, name)))
        kept = pages_that_may_hold(wanted, bounds)
        for page, is_kept in zip(found, kept.tolist()):
            assert is_kept or not holds(wanted, page.drop_null()).any(), (wanted, page)
        pruned += int(np.count_nonzero(~kept))
    assert pruned > 300, "bounds help"
