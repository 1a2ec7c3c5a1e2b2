"""Random statements on tables with all types and hostile names, under settings in rotation: they do what they do with Parquet.

The reference of queries is the same data in Parquet; of DELETE, UPDATE and MERGE, a query of a copy of the rows. If both fail, the class of
the error must be the same. A failure shows the seed of its round.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.plans import settings as set_to
from tests.spark.sql.rotation.names import POOLS, RESERVED, quoted
from tests.spark.sql.rotation.rounds import differences

FULL = settings().max_examples > 100
QUERIES, COMMANDS = (20, 5) if FULL else (2, 1)


# A smaller seed is no simpler round.
@settings(max_examples=100 if FULL else 2, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_random_statements_do_what_they_do_with_parquet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    found = differences(spark, seed, QUERIES, COMMANDS, tmp_path_factory.mktemp("rotation"))
    assert not found, "\n".join(found)


def test_conditions_and_aggregates_of_columns_with_every_name(spark: SparkSession, uri: str) -> None:
    every = list(dict.fromkeys(name for pool in POOLS for name in pool))
    names = [name for name in every if "." not in name and "`" not in name]  # those of columns
    inside = [*every, *RESERVED]
    with set_to(spark, caseSensitive="true"):
        columns = ", ".join(f"{number} AS {quoted(name)}" for number, name in enumerate(names))
        fields = ", ".join(f"{number} AS {quoted(name)}" for number, name in enumerate(inside))
        spark.sql(f"SELECT {columns}, struct({fields}) AS `s t`").write.format("lance").mode("append").save(uri)
        spark.read.format("lance").load(uri).createOrReplaceTempView("named")
        references = [quoted(name) for name in names] + [f"`s t`.{quoted(name)}" for name in inside]
        where = " AND ".join(f"{reference} >= 0" for reference in references)
        row = spark.sql(f"SELECT {', '.join(f'max({reference})' for reference in references)} FROM named WHERE {where}").first()
        assert row is not None
        assert list(row) == [*range(len(names)), *range(len(inside))]
