"""What a search asks a part of an index, a partition in files or the rows that no index covers: tokens, documents and posting lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Postings:
    """The documents with a token (uint32, ascending), and how often each has it (uint32)."""

    documents: np.ndarray
    frequencies: np.ndarray

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return int(self.documents.nbytes + self.frequencies.nbytes)

    @property
    def first_positions(self) -> np.ndarray:
        """Where the positions of each document start (int64): each has as many as its frequency."""
        starts: np.ndarray = np.cumsum(self.frequencies, dtype=np.int64) - self.frequencies
        return starts


class Part(Protocol):
    """Documents that are searched together; they have numbers from 0."""

    @property
    def rows(self) -> np.ndarray:
        """The row id of each document (uint64), or its address."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each document (uint32)."""

    @property
    def scored_lengths(self) -> np.ndarray:
        """The lengths that scores are computed with (uint32): `lengths`, or for some formats of files, rounded ones."""

    @property
    def total_tokens(self) -> int:
        """The number of tokens of all documents."""

    def find(self, token: str) -> int | None:
        """The number of the token; None if no document has it."""

    def similar(self, token: str, fuzziness: int, prefix_length: int, most: int) -> list[str]:
        """At most so many tokens within an edit distance that start with the same characters, in order of their bytes."""

    def count(self, number: int) -> int:
        """The number of documents with the token of this number."""

    def postings(self, number: int) -> Postings:
        """The documents with the token of this number."""

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Say that the posting lists of these tokens are needed soon, so that those in files can be read together."""

    def largest(self, number: int, average: np.float32) -> np.ndarray:
        """See `best.largest`: of the posting list of the token of this number, with documents of this average length."""

    def positions(self, number: int) -> np.ndarray:
        """The positions (uint32) of the token in these documents, one after the other: of each, as many as its frequency."""

    def first_positions(self, number: int) -> np.ndarray:
        """Where in `positions` those of each document start (int64)."""
