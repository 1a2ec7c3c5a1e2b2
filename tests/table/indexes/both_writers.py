"""A table that this package and pylance change in turn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance

from lance_spark import Dataset


class BothWriters:
    """The table at `path`, and appends of at most `_most_new` rows by each of both."""

    path: Path
    random: random.Random
    _most_new: int

    @property
    def ours(self) -> Dataset:
        return Dataset.open(self.path)

    @property
    def theirs(self) -> lance.LanceDataset:
        return lance.dataset(self.path)

    def new(self, count: int) -> Any:
        """So many new rows, which the model has from now on."""
        raise NotImplementedError

    def append(self) -> None:
        Dataset.write(self.path, self.new(self.random.randint(1, self._most_new)), mode="append")

    def append_theirs(self) -> None:
        lance.write_dataset(self.new(self.random.randint(1, self._most_new)), self.path, mode="append")
