"""The version of the file format. Implements "Versioning" of the file format specification."""

from __future__ import annotations

import re
from typing import NamedTuple

_FIRST_OF_2_0 = (0, 3)


class StorageVersion(NamedTuple):
    """A storage version, such as 2.1; versions are ordered."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> StorageVersion:
        """The version in a text such as "2.1". Raises ValueError for other texts."""
        match = re.fullmatch(r"(\d{1,5})\.(\d{1,5})", text)
        if match is None:
            raise ValueError(f"invalid storage version {text!r}; expected two numbers, such as 2.1")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of_file(cls, written: tuple[int, int]) -> StorageVersion:
        """The version of a file, from the numbers in its footer or its manifest entry.

        Files of 2.0 have the numbers 0.3; all earlier numbers are 0.1, the legacy format.
        """
        if written < _FIRST_OF_2_0:
            return V0_1
        return V2_0 if written == _FIRST_OF_2_0 else cls(*written)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V0_1, V2_0, V2_1, V2_2, V2_3 = (StorageVersion(*v) for v in ((0, 1), (2, 0), (2, 1), (2, 2), (2, 3)))
