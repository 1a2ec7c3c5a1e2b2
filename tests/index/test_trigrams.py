"""Trigrams are those of other writers for all characters."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader
from pyroaring import BitMap64

from lance_spark.index.trigrams import ascii_tokens, postings

CHARACTERS = [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000]


def found(texts: pa.Array) -> dict[int, list[int]]:
    tokens, bounds, positions = postings(texts)
    return {int(t): positions[a:b].tolist() for t, a, b in zip(tokens, bounds, bounds[1:])}


def number(trigram: str) -> int:
    alphabet = " 0123456789abcdefghijklmnopqrstuvwxyz"
    return sum(alphabet.index(c) * 37 ** (2 - i) for i, c in enumerate(trigram))


def test_tokens_are_those_of_pylance_for_every_character(tmp_path: Path) -> None:
    texts = pa.array([*(f"qq{c}xx" for c in CHARACTERS), "", "ab", "Hello World, élan ½ Straße 日本語abc", chr(0x10FFFF) * 3])
    lance.write_dataset(pa.table({"t": texts}), tmp_path).create_scalar_index("t", "NGRAM")
    (file,) = tmp_path.glob("_indices/*/ngram_postings.lance")
    theirs = LanceFileReader(str(file)).read_all().to_table().to_pydict()
    assert found(texts) == {t: list(BitMap64.deserialize(p)) for t, p in zip(theirs["tokens"], theirs["posting_list"])}


def test_a_token_names_each_text_once_and_nulls_have_none() -> None:
    texts = pa.array(["x", None, "abcabc", "ABC", None, "xabcx"]).slice(1)
    assert found(texts)[number("abc")] == [1, 2, 4]
    assert found(pa.array([], pa.string())) == found(pa.array([None, None], pa.string())) == {}


def test_large_strings_and_bytes_that_are_no_text_are_read_safely() -> None:
    broken = pa.array([b"abc\xf0", b"\xff\xfe\xffabc", b"\xe6\x97", b"abc\xc3"]).cast(pa.large_binary())
    assert found(broken)[number("abc")] == [0, 1, 3]


def test_what_is_looked_up_are_the_trigrams_of_ascii_parts() -> None:
    assert ascii_tokens("Helé World").tolist() == sorted(map(number, ("hel", "wor", "orl", "rld")))
    assert ascii_tokens("a-b").tolist() == []


def test_all_tokens_of_a_part_are_among_those_of_the_whole() -> None:
    rng = np.random.default_rng(7)
    for _ in range(200):
        text = "".join(rng.choice(list("abC1 é日-½")) for _ in range(30))
        at = int(rng.integers(0, 25))
        assert set(ascii_tokens(text[at : at + 5]).tolist()) <= set(found(pa.array([text])))
