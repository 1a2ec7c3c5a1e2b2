"""Tables of texts, and what pylance finds in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.query import BooleanQuery, BoostQuery, CombinedFieldsQuery, FullTextOperator, MatchQuery, MultiMatchQuery, Occur, PhraseQuery

from lance_spark import Dataset

DOCUMENTS = [
    "hello world foo",
    "world hello",
    "hello big world",
    "foo bar baz hello world world",
    "lance table",
    "the quick brown fox",
    "quick the brown fox jumps",
    "hello",
    "world",
    None,
    "",
    "helo worl",
    "Hellos running",
    "the",
]
TITLES = ["hello", "world", "lance", "lance hello", None, "x", "y", "foo bar", "hello world", "z", "q", "w", "fox", "world"]


def table(path: Path, *, where: slice = slice(None)) -> Any:
    """A table with the columns id, a (`DOCUMENTS`), b (`TITLES`)."""
    rows = pa.table({"id": range(len(DOCUMENTS)), "a": pa.array(DOCUMENTS), "b": pa.array(TITLES)})
    start, stop, _ = where.indices(len(rows))
    return lance.write_dataset(rows.slice(start, stop - start), path, mode="append" if path.exists() else "create")


def asked_of_pylance(query: Any) -> Any:
    """A query of ours as pylance's object; columns must be named."""
    ((kind, given),) = query.items()
    given = dict(given)
    operator = FullTextOperator(given.pop("operator", "or").upper())
    match kind:
        case "match":
            return MatchQuery(given.pop("query"), given.pop("column"), operator=operator, **given)
        case "phrase":
            return PhraseQuery(given.pop("query"), given.pop("column"), **given)
        case "boost":
            return BoostQuery(asked_of_pylance(given.pop("positive")), asked_of_pylance(given.pop("negative")), **given)
        case "multi_match":
            return MultiMatchQuery(given.pop("query"), given.pop("columns"), operator=operator, **given)
        case "combined_fields":
            return CombinedFieldsQuery(given.pop("query"), given.pop("columns"), operator=operator, **given)
    clauses = [(Occur(name.upper()), asked_of_pylance(clause)) for name in given for clause in given[name]]
    return BooleanQuery(clauses)


def same_rows(ds: Any, query: Any, **options: Any) -> list[int]:
    """The ids of the rows that we find, after checking that pylance finds them, with the same scores."""
    theirs = ds.to_table(columns=["id", "_score"], full_text_query=asked_of_pylance(query), **options)
    ours = Dataset.open(ds.uri).scan(columns=["id", "_score"], full_text_query=query, **options).to_table()
    assert ours.schema == theirs.schema
    scores = ours["_score"].to_numpy()
    assert (np.diff(scores) <= 0).all(), "best first"
    expected = sorted(zip(theirs["id"].to_pylist(), theirs["_score"].to_pylist()))
    found = sorted(zip(ours["id"].to_pylist(), scores.tolist()))
    assert [i for i, _ in found] == [i for i, _ in expected], (query, found, expected)
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], rtol=1e-5, err_msg=str(query))
    return [int(i) for i in ours["id"].to_pylist()]
