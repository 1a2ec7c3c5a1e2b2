"""Texts in many languages are cut into the words that pylance cuts them into by ICU4X, and searched by them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import MatchQuery, PhraseQuery

from lance_spark import Dataset
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.icu_tables import Word, tables
from lance_spark.index.text.analysis.parameters import TextParameters
from lance_spark.index.text.analysis.spans import spans_of
from tests.index.text.analysis.texts import TEXTS

BOTH = ("icu", "icu/split")
PLAIN: dict[str, Any] = {
    "stem": False,
    "remove_stop_words": False,
    "lower_case": False,
    "ascii_folding": False,
    "max_token_length": None,
}


def cut(text: str, **parameters: Any) -> list[tuple[str, int]]:
    """The tokens and their positions, which pylance counts from the first one."""
    tokens, places = Analyzer(TextParameters(**parameters)).text(text)
    return [(token, place - places[0]) for token, place in zip(tokens, places)]


def theirs(text: str, **parameters: Any) -> list[tuple[str, int]]:
    return [(token.text, token.position) for token in lance.tokenize(text, **parameters)]


@pytest.mark.parametrize("base", BOTH)
@pytest.mark.parametrize("language", TEXTS)
def test_a_text_is_cut_as_pylance_cuts_it(base: str, language: str) -> None:
    text = TEXTS[language]
    assert cut(text, base_tokenizer=base, **PLAIN)
    assert cut(text, base_tokenizer=base, **PLAIN) == theirs(text, base_tokenizer=base, **PLAIN)
    assert cut(text, base_tokenizer=base) == theirs(text, base_tokenizer=base)  # with all filters
    assert cut(text.upper(), base_tokenizer=base, language="German") == theirs(text.upper(), base_tokenizer=base, language="German")


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_characters_join_words_and_part_them_as_in_pylance(step: int) -> None:
    points = [i for i in range(0x20000) if not 0xD800 <= i < 0xE000] + [*range(0x20000, 0x34000, 61), *range(0xE0000, 0xE0200)]
    points = points[:0x300] + points[0x300::step]
    for around in ("a{0}a", "1{0}1", "{0}_", "א{0}א", "カ{0}カ", "{0}{0}a", "我{0}我", "\u200d{0}"):
        text = "\n".join(around.format(chr(i)) for i in points)
        assert cut(text, base_tokenizer="icu", **PLAIN) == theirs(text, base_tokenizer="icu", **PLAIN), around


@pytest.fixture(scope="module")
def words() -> list[list[str]]:
    """The words of the dictionaries, by language."""
    found = bytes(tables().text).decode().split("\n")[:-1]
    return [found[first:last] for first, last in zip(tables().groups, tables().groups[1:])]


def test_dictionaries_are_those_of_pylance(words: list[list[str]]) -> None:
    text = "\n".join(word for listed in words for word in listed[::7])
    assert cut(text, base_tokenizer="icu", **PLAIN) == theirs(text, base_tokenizer="icu", **PLAIN)


@pytest.mark.parametrize("seed", range(3))
def test_random_texts_are_cut_as_pylance_cuts_them(seed: int, words: list[list[str]]) -> None:
    draw = random.Random(seed)
    kinds = [np.flatnonzero(tables().words == kind).tolist() for kind in Word]

    def part() -> str:
        word = draw.choice(draw.choice(words))
        at = draw.randrange(len(word))
        listed = draw.choice([word, word[:at], word[at:]])
        other = chr(draw.choice(draw.choice(kinds[1:])))
        return draw.choice([listed, other, draw.choice(["a", "1", ".", "'", "_", " ", "\n"])])

    for _ in range(150):
        text = "".join(part() for _ in range(draw.choice([5, 200])))
        for base in BOTH:
            assert cut(text, base_tokenizer=base, **PLAIN) == theirs(text, base_tokenizer=base, **PLAIN)


def test_indexes_of_both_libraries_find_the_same(tmp_path: Path) -> None:
    draw = random.Random(6)
    parts = [part for text in TEXTS.values() for part in text.split()]
    rows = pa.table({"id": range(300), "text": [" ".join(draw.choice(parts) for _ in range(8)) for _ in range(300)]})
    asked = [("match", query) for query in ("清华大学", "ภาษา", "marathons", "한국어русский 서울이다", "東京都の天気")]
    asked += [("phrase", query) for query in ("我来到北京", "ภาษาไทย", "日本語を読む")]
    for base in BOTH:
        lance.write_dataset(rows, tmp_path / f"theirs-{base[4:]}")
        found = lance.dataset(tmp_path / f"theirs-{base[4:]}")
        found.create_scalar_index("text", "INVERTED", with_position=True, base_tokenizer=base)
        ours = Dataset.write(tmp_path / f"ours-{base[4:]}", rows)
        ours.create_scalar_index("text", "INVERTED", with_position=True, base_tokenizer=base)
        for kind, text in asked:
            query = MatchQuery(text, "text") if kind == "match" else PhraseQuery(text, "text")
            expected = scores(found.to_table(columns=["id"], full_text_query=query))
            assert expected
            by_pylance = lance.dataset(tmp_path / f"ours-{base[4:]}").to_table(columns=["id"], full_text_query=query)
            assert scores(by_pylance) == pytest.approx(expected, rel=1e-5)
            for name in ("theirs", "ours"):
                table = Dataset.open(tmp_path / f"{name}-{base[4:]}")
                scan = table.scan(columns=["id"], full_text_query={kind: {"query": text, "column": "text"}})
                assert scores(scan.to_table()) == pytest.approx(expected, rel=1e-5)


def scores(found: pa.Table) -> dict[int, float]:
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist()))


def test_bytes_that_are_no_text_have_tokens_within_them() -> None:
    draw = random.Random(3)
    starts = ["ก", "我", "a", "1", ".", "א", "'"]
    for _ in range(3000):
        parts = [draw.choice([draw.choice(starts).encode(), bytes([draw.randrange(0x80, 0x100)])]) for _ in range(6)]
        data = np.frombuffer(b"".join(parts) + b"|", np.uint8)
        found = spans_of(TextParameters(base_tokenizer="icu"), data, np.array([0, len(data) - 1]))
        assert found is not None
        assert np.all(found.starts < found.ends)
        assert np.all(found.ends < len(data))
