"""The parameters of a full-text index: how its texts are split into tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from lance_spark.errors import CorruptFileError

MAX_TOKEN_LENGTH = 40


@dataclass(frozen=True)
class TextParameters:
    """The parameters in the metadata of an index, which `params` of pylance's `create_scalar_index` describes.

    `lance_tokenizer` is "text" or "json"; `max_token_length` counts bytes of UTF-8, and tokens must be shorter.
    """

    lance_tokenizer: str | None = None
    base_tokenizer: str = "simple"
    language: str = "English"
    with_position: bool = False
    max_token_length: int | None = MAX_TOKEN_LENGTH
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False
    split_identifiers: bool = False
    split_on_numerics: bool = True
    preserve_original: bool = True
    index_operators: bool = False


UNINDEXED = TextParameters(max_token_length=None, lower_case=False, stem=False, remove_stop_words=False, ascii_folding=False)
"""How the texts of a column without an index are split."""

_TYPES = {"bool": (bool,), "str": (str,), "int": (int,), "str | None": (str, type(None)), "int | None": (int, type(None))}


def parse_parameters(text: str, path: str) -> TextParameters:
    """The parameters from the metadata `params` of the file at `path`. Raises CorruptFileError."""
    try:
        given = json.loads(text)
    except ValueError as e:
        raise CorruptFileError(f"{path}: the parameters of the index are no JSON: {e}") from e
    if not isinstance(given, Mapping):
        raise CorruptFileError(f"{path}: expected an object with the parameters of the index, found {text[:100]!r}")
    return TextParameters(**{f.name: _value(f.name, str(f.type), given[f.name], path) for f in fields(TextParameters) if f.name in given})


def _value(name: str, expected: str, value: Any, path: str) -> Any:
    if name == "custom_stop_words":
        if value is not None and not (isinstance(value, list) and all(isinstance(word, str) for word in value)):
            raise CorruptFileError(f"{path}: the parameter {name} of the index must be a list of words, not {value!r}")
        return None if value is None else tuple(value)
    kinds = _TYPES[expected]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise CorruptFileError(f"{path}: the parameter {name} of the index must be of type {expected}, not {value!r}")
    return value
