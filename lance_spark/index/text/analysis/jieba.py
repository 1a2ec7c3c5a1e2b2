"""The tokenizer of Chinese, which cuts a text into words of a dictionary, and longer words also into their parts.

Only the common dictionary is known, that of `jieba/default`: the library has it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from lance_spark.errors import UnsupportedFeatureError

NAME = "jieba/default"
_HOME = "LANCE_LANGUAGE_MODEL_HOME"
"""The environment variable with the folder of language models, in which pylance looks for the dictionary."""

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
    own = _models() / NAME / "dict.txt"
    if own.exists() and hashlib.sha256(own.read_bytes()).hexdigest() != _DICTIONARY:
        raise UnsupportedFeatureError(f"the tokenizer {NAME!r} is only supported with the common dictionary, and {own} is another one")
    return library.Jieba()


def _models() -> Path:
    local = "~/Library/Application Support" if sys.platform == "darwin" else os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(os.environ.get(_HOME) or Path(local).expanduser() / "lance" / "language_models")
