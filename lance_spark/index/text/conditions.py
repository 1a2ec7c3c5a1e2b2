"""Whether the words of a text satisfy a full-text query, as a condition: evaluated on texts, and answered by an index.

Unlike the rows of a search, those that satisfy a condition do not depend on other rows: the words that a fuzzy query stands for are not
limited in number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lance_spark.arrow.jsonb import to_text
from lance_spark.arrow.types import is_binary, is_list
from lance_spark.index.answer import Found, Rows, of_numbers, union
from lance_spark.index.files import IndexFiles
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import UNINDEXED, TextParameters
from lance_spark.index.text.analysis.tokenizers import Tokens
from lance_spark.index.text.bm25 import Statistics
from lance_spark.index.text.fuzzy import near
from lance_spark.index.text.match import Word, by_place, match
from lance_spark.index.text.memory_part import MemoryPart
from lance_spark.index.text.phrase import phrase
from lance_spark.index.text.postings import Part
from lance_spark.index.text.text_index import open_text_index
from lance_spark.predicate.tree import Column, Expression, TextMatch

_LENGTHS = (2, 5)
"""With automatic fuzziness, words of up to so many characters have the distances 0 and 1, longer ones 2."""
_MOST_TOKENS = 1 << 16
"""If the words of a query stand for more tokens of a part of an index, reading the rows is faster."""


@dataclass(frozen=True)
class TextTest:
    """Evaluates conditions on a column whose texts are split into words as the parameters say; see `TextMatch.test`."""

    parameters: TextParameters

    def __call__(self, condition: TextMatch, texts: pa.Array) -> pa.Array:
        """Whether each text satisfies the condition; null for null. Raises CorruptFileError for a text that should be JSON and is not."""
        analyzer = _analyzer(self.parameters)
        documents = documents_of(analyzer, texts)
        tokens, places = query_of(condition, analyzer)
        vocabulary = _Vocabulary(documents) if is_fuzzy(condition) else None
        each: list[Word] = [(t,) if vocabulary is None else vocabulary.similar(condition, t, analyzer.is_json) for t in tokens]
        part = MemoryPart([(np.arange(len(texts), dtype=np.uint64), documents)], frozenset(t for word in each for t in word))
        held = np.zeros(len(texts), np.bool_)
        held[part.rows[_documents(part, condition, each, places)]] = True
        return pa.array(held, mask=texts.is_null().to_numpy(zero_copy_only=False))


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows that satisfy the condition, a `TextMatch`; None for others, or if the column's texts are split differently.

    Of a phrase, without the positions of words, those that have all words, which must be checked.
    """
    if not isinstance(condition, TextMatch) or not isinstance(condition.test, TextTest):
        return None
    index = open_text_index(files)
    if index.parameters != condition.test.parameters:
        return None
    exact = condition.slop is None or index.has_positions
    asked = condition if exact else replace(condition, needs_all=True, slop=None)
    analyzer = _analyzer(index.parameters)
    tokens, places = query_of(asked, analyzer)
    found: list[Rows] = []
    for part in index.parts:
        each = [_similar(part, asked, token, analyzer.is_json) for token in tokens] if is_fuzzy(asked) else [(t,) for t in tokens]
        if sum(map(len, each)) > _MOST_TOKENS:
            return None
        found.append(of_numbers(part.rows[_documents(part, asked, each, places)]))
    return Found(union(found), exact)


def _documents(part: Part, condition: TextMatch, each: Sequence[Word], places: Sequence[int]) -> np.ndarray:
    """The documents of a part that satisfy the condition; `each` has the tokens that stand for each token of the query."""
    if condition.slop is not None:
        tokens = [token for word in each for token in word]
        return phrase(part, tokens, places, condition.slop, _NO_STATISTICS).documents
    words = by_place(each, places)
    one: Word = tuple(dict.fromkeys(token for word in words for token in word))
    return match(part, words if condition.needs_all else [one] if words else [], True, _NO_STATISTICS).documents


_NO_STATISTICS = Statistics(1, 1, {})
"""A condition has no use for scores, so any numbers above 0 will do."""


@lru_cache(maxsize=16)
def _analyzer(parameters: TextParameters) -> Analyzer:
    return Analyzer(parameters)


def is_fuzzy(condition: TextMatch) -> bool:
    """Whether words count that are only similar."""
    return condition.slop is None and condition.fuzziness != 0


def query_of(condition: TextMatch, analyzer: Analyzer) -> Tokens:
    """The tokens of the words that a condition asks for, and their places."""
    return plain_words(condition.text, analyzer.is_json) if is_fuzzy(condition) else analyzer.query(condition.text)


def plain_words(text: str, is_json: bool) -> Tokens:
    """The words of a fuzzy query. As in pylance, they are not filtered or stemmed."""
    return _analyzer(replace(UNINDEXED, lance_tokenizer="json" if is_json else "text")).query(text)


def fixed_start(token: str, is_json: bool) -> int:
    """The number of characters that a token has before the word, which other tokens must start with: the path and the type of JSON."""
    return len(token) - len(token.split(",", 2)[-1]) if is_json else 0


def distance(fuzziness: int | None, word: str) -> int:
    """The edit distance up to which others count for the word."""
    return sum(len(word) > length for length in _LENGTHS) if fuzziness is None else fuzziness


def _similar(part: Part, condition: TextMatch, token: str, is_json: bool) -> Word:
    fixed = fixed_start(token, is_json)
    return tuple(part.similar(token, distance(condition.fuzziness, token[fixed:]), fixed + condition.prefix_length, _MOST_TOKENS + 1))


class _Vocabulary:
    """All tokens of some documents."""

    def __init__(self, documents: Sequence[Tokens]) -> None:
        self._tokens = sorted({word for words, _ in documents for word in words}, key=str.encode)
        encoded = [token.encode() for token in self._tokens]
        self._keys = np.frombuffer(b"".join(encoded), np.uint8)
        self._bounds = np.concatenate([[0], np.cumsum([len(key) for key in encoded], dtype=np.int64)])

    def similar(self, condition: TextMatch, token: str, is_json: bool) -> Word:
        """Those that stand for a token of a fuzzy query."""
        fixed = fixed_start(token, is_json)
        fuzziness = distance(condition.fuzziness, token[fixed:])
        found = near(self._keys, self._bounds, token, fuzziness, fixed + condition.prefix_length)
        return tuple(self._tokens[i] for i in found.tolist())


def documents_of(analyzer: Analyzer, values: pa.Array) -> list[Tokens]:
    """The tokens of each of the values: texts, lists of texts, or JSON documents. A list is one document; a null has no tokens."""
    if is_binary(values.type):
        values = to_text(values)  # JSON that is stored as JSONB
    analyze = analyzer.document
    empty: Tokens = ([], [])
    if is_list(values.type):
        return [empty if texts is None else _joined([analyze(t) for t in texts if t is not None]) for texts in values.to_pylist()]
    return [empty if text is None else analyze(text) for text in values.to_pylist()]


def _joined(documents: Sequence[Tokens]) -> Tokens:
    """The tokens of a list of texts as those of one."""
    tokens: list[str] = []
    positions: list[int] = []
    for words, places in documents:
        first = positions[-1] + 1 if positions else 0
        tokens += words
        positions += [first + place for place in places]
    return tokens, positions
