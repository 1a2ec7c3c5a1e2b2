"""A phrase with slop is found wherever its words come in order with at most so many others between two, however they repeat.

pylance misses rows for three words and more, even those with the phrase itself. So the oracle is the definition.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset

INDEXED, ALL = 60, 80
SEEDS = range(40 if settings().max_examples > 100 else 4)


def has_phrase(text: str, phrase: str, slop: int) -> bool:
    """Whether the words of the phrase are in the text, each up to `slop` later than right after the one before."""
    words = text.split()
    first, *others = phrase.split()
    ends = {place for place, word in enumerate(words) if word == first}
    for wanted in others:
        places = [place for place, word in enumerate(words) if word == wanted]
        ends = {place for place in places if any(1 <= place - end <= 1 + slop for end in ends)}
    return bool(ends)


@pytest.mark.parametrize("seed", SEEDS)
def test_phrases_of_any_length_and_slop_are_found(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    words = ["red", "blue", "sea"] if seed % 2 else ["ash", "elm", "fir", "oak", "yew", "may"]
    texts = [" ".join(rng.choices(words, k=rng.randrange(1, 12))) for _ in range(ALL)]
    rows = pa.table({"id": range(ALL), "text": texts})
    table = Dataset.write(str(tmp_path / "t"), rows.slice(0, INDEXED))
    table.create_scalar_index("text", "INVERTED", with_position=True, stem=False, remove_stop_words=False)
    table = Dataset.write(str(tmp_path / "t"), rows.slice(INDEXED), mode="append")
    for slop in (0, 1, 2, 3):
        for length in (1, 2, 3, 4, 5):
            phrase = " ".join(rng.choices(words, k=length))
            expected = {i for i, text in enumerate(texts) if has_phrase(text, phrase, slop)}
            query = {"phrase": {"query": phrase, "column": "text", "slop": slop}}
            found = table.to_table(["id", "_score"], full_text_query=query)
            scores = dict(zip(found["id"].to_pylist(), found["_score"].to_pylist()))
            assert set(scores) == expected, (phrase, slop)
            best = table.to_table(["id"], full_text_query=query, limit=5)["id"].to_pylist()
            assert [scores[i] for i in best] == sorted(scores.values(), reverse=True)[:5], (phrase, slop)
            condition = f"lance_match_phrase(text, '{phrase}', {slop})"
            assert set(table.to_table(["id"], filter=condition)["id"].to_pylist()) == expected, (phrase, slop)
