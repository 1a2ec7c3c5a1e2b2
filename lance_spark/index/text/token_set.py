"""The tokens of a partition of an index: their numbers, and the tokens that are similar to one."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile, unsigned
from lance_spark.index.text.fst import Fst, open_fst
from lance_spark.index.text.fuzzy import near

_FST, _TOKEN, _ID = "_token_fst_bytes", "_token", "_token_id"
_MOST_TOKENS = 1 << 28
"""A partition with more tokens would take gigabytes."""


class TokenSet:
    """Tokens and their numbers, from a transducer, or from lists of the sorted tokens (UTF-8) and their numbers."""

    def __init__(self, fst: Fst | None, listed: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None) -> None:
        self._fst = fst
        self._given = listed

    def find(self, token: str) -> int | None:
        """The number of the token; None if the partition does not have it."""
        key = token.encode()
        if self._fst is not None:
            return self._fst.find(key)
        keys, bounds, numbers = self.listed
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            if keys[bounds[middle] : bounds[middle + 1]].tobytes() < key:
                low = middle + 1
            else:
                high = middle
        there = low < len(numbers) and keys[bounds[low] : bounds[low + 1]].tobytes() == key
        return int(numbers[low]) if there else None

    def similar(self, token: str, fuzziness: int, prefix_length: int, most: int) -> list[str]:
        """At most so many tokens within the edit distance that start with the first characters of the token, in order of their bytes."""
        keys, bounds, _ = self.listed
        found = near(keys, bounds, token, fuzziness, prefix_length)[:most].tolist()
        return [keys[bounds[i] : bounds[i + 1]].tobytes().decode(errors="replace") for i in found]

    @cached_property
    def listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All tokens in order: their bytes one after the other (UTF-8), the bounds of each, and the numbers. Raises CorruptFileError."""
        if self._given is not None:
            return self._given
        assert self._fst is not None, "a token set has a transducer or lists"
        return self._fst.all_keys()


def read_tokens(file: IndexFile) -> TokenSet:
    """The tokens in a file. Raises CorruptFileError."""
    names = file.schema.names
    if _FST in names:
        values = file.read([_FST]).column(0)
        if len(values) != 1 or values.type != pa.large_binary() or values.null_count:
            raise CorruptFileError(f"{file.path}: expected the bytes of one transducer in {_FST!r}")
        return TokenSet(open_fst(values[0].as_py(), file.path, _MOST_TOKENS))
    batch = file.read([_TOKEN, _ID])
    numbers = unsigned(batch.column(1), file.path).astype(np.int64)
    try:
        tokens = batch.column(0).cast(pa.large_binary())
    except pa.ArrowNotImplementedError as e:
        raise CorruptFileError(f"{file.path}: expected tokens of text, found {batch.column(0).type}") from e
    if tokens.null_count:
        raise CorruptFileError(f"{file.path}: there are {tokens.null_count} nulls among the tokens")
    return listed_tokens(tokens, numbers)


def listed_tokens(tokens: pa.LargeBinaryArray, numbers: np.ndarray) -> TokenSet:
    """A set of these tokens and their numbers, in any order."""
    order = np.argsort(np.array(tokens.to_pylist(), object), kind="stable") if len(tokens) else np.empty(0, np.int64)
    tokens = tokens.take(pa.array(order))
    bounds = np.frombuffer(tokens.buffers()[1], np.int64)[: len(tokens) + 1] if len(tokens) else np.zeros(1, np.int64)
    data = tokens.buffers()[2]
    keys = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return TokenSet(None, (keys[int(bounds[0]) :], bounds - bounds[0], numbers[order]))
