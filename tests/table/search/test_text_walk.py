"""Random documents and changes, by us and by pylance in turn: a search finds what pylance finds, a condition what its words say."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset
from tests.table.search.texts import same_rows

SEEDS = range(300 if settings().max_examples > 100 else 3)
WORDS = [*("sea", "see", "seas", "red", "reed", "über", "Straße", "ёлка", "日本", "naïve", "x9"), "w" * 60, "the", "Red", "SEA"]
BREAKS = [" ", ", ", " 🙂 ", "-", "\n", " \u200d👩 ", "... "]
STEPS = 5
HOW: dict[str, Any] = {"stem": False, "remove_stop_words": False, "ascii_folding": False, "max_token_length": None}


def document(rng: random.Random) -> str | None:
    """Null, empty, short or long."""
    kind = rng.random()
    if kind < 0.2:
        return [None, "", "🙂🙂", "..."][rng.randrange(4)]
    words = rng.choices(WORDS, k=rng.randrange(200) if kind > 0.97 else rng.randrange(1, 7))
    return "".join(word + rng.choice(BREAKS) for word in words)


def rows(rng: random.Random, first: int) -> pa.Table:
    count = rng.randrange(1, 40)
    return pa.table({"id": range(first, first + count), "a": pa.array([document(rng) for _ in range(count)], pa.string())})


def change(rng: random.Random, uri: str, first: int) -> None:
    """One change by us or by pylance."""
    ours, theirs = Dataset.open(uri), lance.dataset(uri)
    some = f"id % {rng.randrange(2, 9)} = 1"
    by_us = rng.random() < 0.5
    match rng.randrange(5):
        case 0 | 1:
            new = rows(rng, first)
            Dataset.write(uri, new, mode="append") if by_us else lance.write_dataset(new, uri, mode="append")
        case 2:
            ours.delete(some) if by_us else theirs.delete(some)
        case 3:
            ours.update({"a": "'red sea'"}, some) if by_us else theirs.update({"a": "'red sea'"}, some)
        case 4:
            ours.optimize.optimize_indices() if by_us else theirs.optimize.optimize_indices()


def words_of(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"\w+", text)]


def near(a: str, b: str) -> bool:
    """Whether one insertion, deletion or replacement makes one of the other."""
    if a == b or (len(a) == len(b) and sum(x != y for x, y in zip(a, b)) == 1):
        return True
    short, long = sorted((a, b), key=len)
    return len(long) == len(short) + 1 and any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def holds(text: str | None, query: str, how: str) -> bool | None:
    if text is None:
        return None
    there, wanted = words_of(text), words_of(query)
    match how:
        case "or":
            return any(w in there for w in wanted)
        case "and":
            return bool(wanted) and all(w in there for w in wanted)
        case "fuzzy":
            return any(near(w, t) for w in wanted for t in there)
        case _:
            return any(there[i : i + len(wanted)] == wanted for i in range(len(there))) if wanted else False


SQL = {
    "or": "lance_match(a, '{}')",
    "and": "lance_match(a, '{}', 'operator=AND')",
    "fuzzy": "lance_match(a, '{}', 'fuzziness=1')",
    "phrase": "lance_match_phrase(a, '{}')",
}


def ids(found: Any) -> list[int]:
    return sorted(found.to_table().column("id").to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
def test_searches_and_conditions_stay_right_while_a_table_changes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    uri, stable = str(tmp_path / "t"), seed % 2 == 1
    lance.write_dataset(rows(rng, 0), uri, enable_stable_row_ids=stable)
    if seed % 3:
        lance.dataset(uri).create_scalar_index("a", "INVERTED", with_position=True, **HOW)
    else:
        Dataset.open(uri).create_scalar_index("a", "INVERTED", with_position=seed % 2 == 0, **HOW)
    for step in range(STEPS):
        ds = lance.dataset(uri)
        table, texts = Dataset.open(uri), dict(zip(*(c.to_pylist() for c in ds.to_table(columns=["id", "a"]).columns)))
        query = " ".join(rng.choices(WORDS, k=rng.randrange(1, 4)))
        if texts:
            for operator in ("or", "and"):
                same_rows(ds, {"match": {"query": query, "column": "a", "operator": operator}})
        for how, sql in SQL.items():
            asked = sql.format(query if how != "fuzzy" else query.lower())
            expected = {i: holds(text, query, how) for i, text in texts.items()}
            true, false = sorted(i for i, v in expected.items() if v), sorted(i for i, v in expected.items() if v is False)
            for use in (True, False):
                assert ids(table.scan(columns=["id"], filter=asked, use_scalar_index=use)) == true, (asked, step, use)
                assert ids(table.scan(columns=["id"], filter=f"NOT {asked}", use_scalar_index=use)) == false, (asked, step, use)
                both = table.scan(columns=["id"], filter=f"({asked} OR id = 3) AND id < 30", use_scalar_index=use)
                assert ids(both) == [i for i in sorted(texts) if i < 30 and (i == 3 or i in true)]
        change(rng, uri, 1000 * (step + 1))
