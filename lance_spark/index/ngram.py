"""NGRAM: the rows whose text contains a trigram, for each trigram (see `trigrams`); token 0 has the rows that are null.

`ngram_postings.lance` has one row per token, ascending, with a RoaringTreemap of rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.arrow.selection import joined
from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Found, Rows, intersection, of_numbers, union
from lance_spark.index.files import IndexFile, IndexFiles, bitmaps, unsigned
from lance_spark.index.moves import Translation
from lance_spark.index.row_sets import in_pieces, parse_treemap, serialise_treemap
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.trigrams import ascii_tokens, postings
from lance_spark.predicate.tree import And, Call, Column, Compare, Expression, In, IsNull, Like, Literal, Or

FILE = "ngram_postings.lance"
VERSION = 0
_NULL = 0
_RUN_BYTES = 32 << 20
_SCHEMA = pa.schema([pa.field("tokens", pa.uint32()), pa.field("posting_list", pa.binary(), nullable=False)])
_LIKE = re.compile(r"\(\?s\)\^\(\?:(.*)\)\\z", re.DOTALL)
_LIKE_PIECE = re.compile(r"\.\*|\.|\\(.)|([^\\.])", re.DOTALL)


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows with all trigrams that the condition needs, which must be checked; exact for IS NULL."""
    match condition:
        case And(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            return Found(intersection([p.rows for p in parts]), exact=False) if parts else None
        case Or(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            return Found(union(p.rows for p in parts), all(p.exact for p in parts)) if len(parts) == len(operands) else None
        case IsNull(operand) if operand == column:
            return Found(_rows(files, [_NULL])[0], exact=True)
        case Call("contains" | "startswith" | "endswith", (text, Literal(str(part)))) if text == column:
            return _containing(files, [part])
        case Like(text, pattern) if text == column and (parts_ := _parts(pattern)):
            return _containing(files, parts_)
        case Compare("=", text, Literal(str(value))) if text == column:
            return _containing(files, [value])
        case In(text, values) if text == column and values:
            each = [_containing(files, [v]) for v in values]
            known = [f for f in each if f is not None]
            return Found(union(f.rows for f in known), exact=False) if len(known) == len(each) else None
        case _:
            return None


def _parts(pattern: str) -> list[str]:
    """The texts between the wildcards of a LIKE pattern, from its regular expression (see `regex.of_like`)."""
    match = _LIKE.fullmatch(pattern)
    if match is None:
        return []
    pieces = _LIKE_PIECE.finditer(match[1])
    return "".join(p[1] or p[2] or "\0" for p in pieces).split("\0")


def _containing(files: IndexFiles, parts: Sequence[str]) -> Found | None:
    """The rows with the trigrams of all parts; None if they have none."""
    tokens = sorted({int(t) for part in parts for t in ascii_tokens(part)})
    return Found(intersection(_rows(files, tokens)), exact=False) if tokens else None


def _rows(files: IndexFiles, tokens: Sequence[int]) -> list[Rows]:
    """The rows of each token; only one without rows if a token is in no text."""
    file = files.open(FILE)
    _check_columns(file)
    known = files.cached("tokens", lambda: _tokens(file), lambda a: a.nbytes)
    places = np.searchsorted(known, tokens)
    if (places >= len(known)).any() or (known[np.minimum(places, len(known) - 1)] != tokens).any():
        return [{}]
    return [parse_treemap(data, file.path) for data in bitmaps(file.read(["posting_list"], places).column(0), file.path)]


def _tokens(file: IndexFile) -> np.ndarray:
    """All tokens. Raises CorruptFileError if they are not in order."""
    tokens = unsigned(file.read(["tokens"]).column(0), file.path)
    if (tokens[1:] <= tokens[:-1]).any():
        raise CorruptFileError(f"{file.path}: the tokens are not in ascending order")
    return tokens


def _check_columns(file: IndexFile) -> None:
    found = file.schema.types
    if found != _SCHEMA.types:
        raise CorruptFileError(f"{file.path}: expected columns of {_SCHEMA.types}, found {found}")


@dataclass
class _Postings:
    """The rows of each token so far."""

    rows: dict[int, Rows] = field(default_factory=dict)

    def add(self, token: int, rows: Rows) -> None:
        known = self.rows.setdefault(token, {})
        for fragment, found in rows.items():
            if fragment in known:
                known[fragment] |= found
            else:
                known[fragment] = found

    def add_texts(self, texts: pa.Array, numbers: np.ndarray) -> None:
        """Add texts, all of the same high half in `numbers`."""
        if texts.null_count:
            self.add(_NULL, of_numbers(numbers[np.asarray(texts.is_null())]))
        tokens, bounds, positions = postings(texts)
        high, low = int(numbers[0]) >> 32, numbers.astype(np.uint32)[positions]
        ends = bounds.tolist()
        for token, a, b in zip(tokens.tolist(), ends, ends[1:]):
            self.add(token, {high: BitMap(memoryview(low[a:b]))})

    def write(self, target: IndexTarget) -> Trained:
        with target.create(FILE, _SCHEMA) as out:
            for tokens, data in in_pieces(sorted(self.rows.items()), serialise_treemap):
                out.put(pa.array(tokens, pa.uint32()), pa.array(data, pa.binary()))
        return target.trained(b"", VERSION)


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, whose values are texts."""
    found = _Postings()
    for texts, numbers in _runs(rows):
        found.add_texts(texts, numbers)
    return found.write(target)


def _runs(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Array, np.ndarray]]:
    """The rows in larger parts, each of rows with the same high half."""
    waiting: list[tuple[pa.Array, np.ndarray]] = []
    size = 0
    for batch in rows:
        numbers = batch.column("row").to_numpy()
        high = numbers >> np.uint64(32)
        bounds = [0, *(np.flatnonzero(high[1:] != high[:-1]) + 1).tolist(), len(numbers)]
        for a, b in itertools.pairwise(bounds):
            if waiting and (size >= _RUN_BYTES or waiting[-1][1][-1] >> np.uint64(32) != high[a]):
                yield joined([t for t, _ in waiting]), np.concatenate([n for _, n in waiting])
                waiting, size = [], 0
            if b > a:
                waiting.append((batch.column("value").slice(a, b - a), numbers[a:b]))
                size += waiting[-1][0].nbytes
    if waiting:
        yield joined([t for t, _ in waiting]), np.concatenate([n for _, n in waiting])


def _all(files: IndexFiles, file: IndexFile) -> Iterator[tuple[int, Rows]]:
    _check_columns(file)
    _tokens(file)
    for batch in file.batches(_SCHEMA.names):
        for token, data in zip(unsigned(batch.column(0), file.path).tolist(), bitmaps(batch.column(1), file.path)):
            yield token, parse_treemap(data, file.path)


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the rows of all sources that still exist."""
    found = _Postings()
    for files, translation in sources:
        for token, rows in _all(files, files.open(FILE)):
            found.add(token, translation.rows(rows))
    return found.write(target)
