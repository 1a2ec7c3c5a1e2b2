"""Splitting many documents into numbered tokens: each distinct token goes through the filters once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.arrow.jsonb import to_text
from lance_spark.arrow.texts import bytes_of
from lance_spark.arrow.types import is_binary, is_list
from lance_spark.errors import InvalidOptionError
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import TextParameters
from lance_spark.index.text.analysis.spans import spans_of
from lance_spark.index.text.build.words import Words
from lance_spark.index.text.fst import MOST_BYTES

_DROPPED = -1
_PIECE_BYTES = 4 << 20
"""Bytes of texts that are split at once: up to one n-gram for each, which takes 24 bytes."""


@dataclass(frozen=True)
class Occurrences:
    """Tokens (numbers, uint32) that documents (numbers, uint32, ascending) have at positions (uint32)."""

    tokens: np.ndarray
    documents: np.ndarray
    places: np.ndarray


class Splitter:
    """Splits documents into tokens, which are numbered in the order in which they first come. Raises UnsupportedFeatureError."""

    def __init__(self, parameters: TextParameters) -> None:
        self._analyzer = Analyzer(parameters)
        self._words = Words()
        self._after = np.empty(0, np.int64)
        self._numbers: dict[str, int] = {}

    @property
    def tokens(self) -> Sequence[str]:
        """The tokens, by number."""
        return list(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def split(self, values: pa.Array) -> Iterator[tuple[int, int, Occurrences]]:
        """The tokens of documents, which are texts, lists of texts or JSON, range by range; they are numbered from the start of the range.

        Raises InvalidOptionError for a token that is too long.
        """
        start = 0
        while start < len(values):
            stop = start + _fitting(values.slice(start))
            yield start, stop, self._split(values.slice(start, stop - start))
            start = stop

    def _split(self, values: pa.Array) -> Occurrences:
        if is_binary(values.type):
            values = to_text(values)  # JSON that is stored as JSONB
        texts, documents = values, np.arange(len(values), dtype=np.uint32)
        lists = is_list(values.type)
        if lists:
            documents = np.repeat(documents, values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
            texts = values.flatten()
        if texts.null_count:
            known = np.asarray(texts.is_valid())
            texts, documents = texts.drop_null(), documents[known]
        tokens, of, places = self._of_texts(texts)
        return Occurrences(tokens.astype(np.uint32), documents[of], _joined(documents, of, places) if lists else places)

    def _of_texts(self, texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of the tokens that the filters leave, the numbers of their texts, and their positions."""
        data, bounds = bytes_of(texts)
        spans = None if self._analyzer.is_json else spans_of(self._analyzer.parameters, data, bounds)
        if spans is None:
            return self._one_by_one(texts)
        words = self._words.numbers(spans.data, spans.starts, spans.ends)
        self._after = np.append(self._after, [self._filtered(self._words.text(i)) for i in range(len(self._after), len(self._words))])
        tokens = self._after.astype(np.int64)[words]
        kept = tokens != _DROPPED
        return tokens[kept], spans.texts[kept], spans.places[kept]

    def _filtered(self, word: str) -> int:
        token = self._analyzer.filtered(word)
        return _DROPPED if token is None else self._numbered(token)

    def _numbered(self, token: str) -> int:
        number = self._numbers.get(token)
        if number is None:
            if len(token) * 4 >= MOST_BYTES and len(token.encode()) >= MOST_BYTES:
                raise InvalidOptionError(
                    f"a text has a token of {len(token.encode())} bytes, but tokens of an index have less than {MOST_BYTES}; "
                    "create the index with a max_token_length"
                )
            number = self._numbers[token] = len(self._numbers)
        return number

    def _one_by_one(self, texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `_of_texts`, for the tokenizers of code and JSON, whose tokens are not parts of the text."""
        tokens: list[int] = []
        sizes: list[int] = []
        positions: list[int] = []
        for text in texts.to_pylist():
            found, places = self._analyzer.document(text)
            tokens += [self._numbered(token) for token in found]
            positions += places
            sizes.append(len(found))
        of = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
        return np.array(tokens, np.int64), of, np.array(positions, np.uint32)


def _fitting(values: pa.Array) -> int:
    """How many of the values are about as many bytes as are split at once, at least one."""
    size = max(int(values.nbytes), 1)
    return max(1, min(len(values), len(values) * _PIECE_BYTES // size))


def _joined(documents: np.ndarray, of: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The positions of tokens of the texts `of` lists as if the texts of each were one; `documents` are the lists of the texts.

    The positions of a text start behind the last one of the text before.
    """
    spans = np.zeros(len(documents) + 1, np.int64)
    last = np.flatnonzero(np.append(of[1:] != of[:-1], True)) if len(of) else np.empty(0, np.int64)
    spans[of[last] + 1] = places[last].astype(np.int64) + 1
    before = np.cumsum(spans)[:-1]
    firsts = np.searchsorted(documents, documents)
    joined: np.ndarray = (places + (before - before[firsts])[of]).astype(np.uint32)
    return joined
