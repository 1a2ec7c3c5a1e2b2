"""The tokenizer of Chinese, which cuts a text into words of a dictionary, and longer words also into their parts.

Only the common dictionary is known, that of `jieba/default`: the library has it.
"""

from __future__ import annotations

import hashlib
import importlib
from functools import cache
from typing import Any

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.text.analysis.language_models import model_folder

NAME = "jieba/default"
FAMILY = "jieba"
"""Without a name of a dictionary, the common one is meant."""

_DICTIONARY = "7197c3211ddd98962b036cdf40324d1ea2bfaa12bd028e68faa70111a88e12a8"
"""The SHA-256 of the dictionary of the library."""


def words_of(text: str) -> tuple[list[str], list[int]]:
    """The words of a text, and the numbers of their first characters. Raises UnsupportedFeatureError without the library."""
    # In this mode long words are cut, and words that the dictionary lacks are guessed by a hidden Markov model.
    found = _library().tokenize(text, "search", True)
    return [word for word, _, _ in found], [start for _, start, _ in found]


@cache
def _library() -> Any:
    try:
        library = importlib.import_module("rjieba")
    except ImportError as e:
        raise UnsupportedFeatureError(f"the tokenizer {NAME!r} needs a library: pip install 'lance-spark[cjk]'") from e
    own = model_folder(NAME) / "dict.txt"
    if (config := model_folder(NAME) / "config.json").exists():
        raise UnsupportedFeatureError(f"the tokenizer {NAME!r} is only supported with the common dictionary, and {config} names others")
    if own.exists() and hashlib.sha256(own.read_bytes()).hexdigest() != _DICTIONARY:
        raise UnsupportedFeatureError(f"the tokenizer {NAME!r} is only supported with the common dictionary, and {own} is another one")
    return library.Jieba()
