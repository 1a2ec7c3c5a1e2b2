"""NGRAM: the rows whose text contains a trigram, for each trigram (see `trigrams`); token 0 has the rows that are null.

`ngram_postings.lance` has one row per token, ascending, with a RoaringTreemap of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lance_spark.errors import CorruptFileError
from lance_spark.index import keyed_rows
from lance_spark.index.answer import Found, Rows, intersection, union
from lance_spark.index.files import IndexFile, IndexFiles, bitmaps, unsigned
from lance_spark.index.moves import Translation
from lance_spark.index.order import runs
from lance_spark.index.row_sets import TREEMAP, common_rows, read_treemap
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.trigrams import ascii_tokens, postings
from lance_spark.predicate.regex import like_parts
from lance_spark.predicate.tree import And, Call, Column, Compare, Expression, In, IsNull, Like, Literal, Or

FILE = "ngram_postings.lance"
VERSION = 0
_NULL = 0
"""The token of rows that are null."""
_RUN_BYTES = 32 << 20
"""Texts whose tokens are sorted at once: for each byte up to one token, which takes 12 bytes with its row."""
_SCHEMA = pa.schema([pa.field("tokens", pa.uint32()), pa.field("posting_list", pa.binary(), nullable=False)])


@dataclass(frozen=True)
class _Postings:
    """The numbers of the rows of a token, and the bytes that they take."""

    rows: BitMap64
    nbytes: int


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
            return Found(_rows(files, [_NULL]), exact=True)
        case Call("contains" | "startswith" | "endswith", (text, Literal(str(part)))) if text == column:
            return _containing(files, [part])
        case Like(text, pattern) if text == column and (texts := like_parts(pattern)):
            return _containing(files, texts)
        case Compare("=", text, Literal(str(value))) if text == column:
            return _containing(files, [value])
        case In(text, values) if text == column and values:
            each = [_containing(files, [v]) for v in values]
            known = [f for f in each if f is not None]
            return Found(union(f.rows for f in known), exact=False) if len(known) == len(each) else None
        case _:
            return None


def _containing(files: IndexFiles, parts: Sequence[str]) -> Found | None:
    """The rows with the trigrams of all parts; None if they have none."""
    tokens = sorted({token for part in parts for token in ascii_tokens(part).tolist()})
    return Found(_rows(files, tokens), exact=False) if tokens else None


def _rows(files: IndexFiles, tokens: Sequence[int]) -> Rows:
    """The rows that have all tokens."""
    file = files.open(FILE)
    _check_columns(file)
    known = files.cached("tokens", lambda: _tokens(file), lambda a: a.nbytes)
    places = np.searchsorted(known, tokens)
    if (places >= len(known)).any() or (known[np.minimum(places, len(known) - 1)] != tokens).any():
        return {}

    def read(numbers: Sequence[int]) -> list[_Postings]:
        lists = bitmaps(file.read(["posting_list"], np.array(numbers)).column(0), file.path)
        return [_Postings(read_treemap(data, file.path), len(data)) for data in lists]

    found = files.cached_each("postings", places.tolist(), read, lambda postings: postings.nbytes)
    return common_rows([postings.rows for postings in found], file.path)


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


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, whose values are texts."""
    return _written(target, keyed_rows.joined_runs((_tokens_of(run) for run in runs(rows, _RUN_BYTES)), TREEMAP))


def _tokens_of(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of each token, and the null rows."""
    texts, numbers = rows.column("value"), rows.column("row").to_numpy()
    tokens, bounds, positions = postings(texts)
    nulls = numbers[np.asarray(texts.is_null())]
    keys = pa.array(np.concatenate([np.array([_NULL], np.uint32), tokens]))
    return keyed_rows.batch_of(keys, np.concatenate([[0], len(nulls) + bounds]), np.concatenate([nulls, numbers[positions]]))


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the rows of all sources that still exist."""
    opened = [(files, files.open(FILE), translation) for files, translation in sources]
    for _, file, _ in opened:
        _check_columns(file)
        _tokens(file)
    return _written(target, keyed_rows.united([keyed_rows.read(*source, TREEMAP) for source in opened]))


def _written(target: IndexTarget, rows: Iterable[pa.RecordBatch]) -> Trained:
    with target.create(FILE, _SCHEMA) as out:
        keyed_rows.write(out, rows, TREEMAP)
    return target.trained(b"", VERSION)
