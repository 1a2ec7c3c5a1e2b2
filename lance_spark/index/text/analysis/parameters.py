"""The parameters of a full-text index: how its texts are split into tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from google.protobuf.message import DecodeError

from lance_spark._proto import index_pb2
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, InvalidOptionError

MAX_TOKEN_LENGTH = 40

SMALL, LARGE = 128, 256
"""The numbers of documents in a block of a posting list."""

_LANGUAGES = (
    *("Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek", "Hungarian", "Italian", "Norwegian"),
    *("Portuguese", "Romanian", "Russian", "Spanish", "Swedish", "Tamil", "Turkish"),
)
_MOST_CHARACTERS = 1 << 12
"""n-grams of more characters would be longer than tokens may be."""
_IN_DETAILS = (
    *("with_position", "lower_case", "stem", "remove_stop_words", "ascii_folding"),
    *("min_ngram_length", "max_ngram_length", "prefix_only", "block_size"),
)
_OF_CODE = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
_NOT_GIVEN = ("lance_tokenizer",)
"""Parameters that the type of the column tells."""


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
    block_size: int = SMALL

    @property
    def format_version(self) -> int:
        """The version of the files: 3 has the analysis of code, and larger blocks."""
        return 3 if self.base_tokenizer == "code" or self.block_size == LARGE else 2


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


def json_of(parameters: TextParameters) -> str:
    """The metadata `params` of an index."""
    return json.dumps({"lance_tokenizer": None, **asdict(parameters)}, separators=(",", ":"), ensure_ascii=False)


def details_of(parameters: TextParameters) -> bytes:
    """What a manifest says about an index with these parameters; own stop words are in its files alone."""
    details = index_pb2.InvertedIndexDetails(
        base_tokenizer=parameters.base_tokenizer,
        language=json.dumps(parameters.language),
        with_position=parameters.with_position,
        lower_case=parameters.lower_case,
        stem=parameters.stem,
        remove_stop_words=parameters.remove_stop_words,
        ascii_folding=parameters.ascii_folding,
        min_ngram_length=parameters.min_ngram_length,
        max_ngram_length=parameters.max_ngram_length,
        prefix_only=parameters.prefix_only,
        block_size=parameters.block_size,
        format_version=parameters.format_version,
    )
    if parameters.max_token_length is not None:
        details.max_token_length = parameters.max_token_length
    if parameters.base_tokenizer == "code":
        for name in _OF_CODE:
            setattr(details.code, name, getattr(parameters, name))
    return details.SerializeToString()


def parameters_of(details: bytes, is_json: bool, what: str) -> TextParameters:
    """The parameters in what a manifest says about an index. Raises CorruptFileError; `what` names the index."""
    given = parse_message(index_pb2.InvertedIndexDetails, details, what)
    try:
        language = json.loads(given.language)
    except ValueError:
        language = None
    if not isinstance(language, str) or not given.base_tokenizer:
        raise CorruptFileError(f"{what} do not tell its tokenizer and language")
    return TextParameters(
        lance_tokenizer="json" if is_json else "text",
        base_tokenizer=given.base_tokenizer,
        language=language,
        max_token_length=given.max_token_length if given.HasField("max_token_length") else None,
        **{name: getattr(given, name) for name in _IN_DETAILS},
        **{name: getattr(given.code, name) for name in _OF_CODE},
    )


def has_items(details: bytes) -> bool:
    """Whether each item of a list is a document of its own, says a manifest about an index."""
    try:
        return bool(index_pb2.InvertedIndexDetails.FromString(details).document_granularity)
    except DecodeError:
        return False


def new_parameters(given: Mapping[str, object], is_json: bool) -> TextParameters:
    """The parameters of a new index, as users give them; see `TextParameters`. Raises InvalidOptionError or UnsupportedFeatureError."""
    names = [f.name for f in fields(TextParameters) if f.name not in _NOT_GIVEN]
    if unknown := [name for name in given if name not in names]:
        raise InvalidOptionError(f"an index of the kind INVERTED has no parameter {unknown[0]!r}; its parameters are: {', '.join(names)}")
    chosen = {f.name: _given(f.name, str(f.type), given[f.name]) for f in fields(TextParameters) if f.name in given}
    base = chosen.get("base_tokenizer", "simple")
    is_code = base == "code"
    if not is_code and (wrong := [name for name in _OF_CODE if name in given]):
        raise InvalidOptionError(f"the parameter {wrong[0]!r} needs base_tokenizer='code', not {base!r}")
    defaults: dict[str, Any] = dict.fromkeys(_OF_CODE, False)
    if is_code:
        defaults |= {"split_on_numerics": True, "preserve_original": True}
    if is_code or base == "ngram":
        defaults |= {"stem": False, "remove_stop_words": False}
    parameters = TextParameters(**{"lance_tokenizer": "json" if is_json else "text", **defaults, **chosen})
    _check(parameters)
    return parameters


def _given(name: str, expected: str, value: object) -> Any:
    if name == "custom_stop_words" and isinstance(value, str | bytes):
        raise InvalidOptionError(f"custom_stop_words must be a list of words, not {value!r}")
    if name == "custom_stop_words" and isinstance(value, Iterable):
        value = list(value)
    try:
        return _value(name, expected, value, "full-text index")
    except CorruptFileError as e:
        wanted = "a list of words" if name == "custom_stop_words" else f"of type {expected}"
        raise InvalidOptionError(f"the parameter {name} of a full-text index must be {wanted}, not {value!r}") from e


def _check(parameters: TextParameters) -> None:
    low, high = parameters.min_ngram_length, parameters.max_ngram_length
    if parameters.language not in _LANGUAGES:
        raise InvalidOptionError(f"unknown language {parameters.language!r} of a full-text index; expected one of: {', '.join(_LANGUAGES)}")
    if parameters.block_size not in (SMALL, LARGE):
        raise InvalidOptionError(f"block_size must be {SMALL} or {LARGE}, not {parameters.block_size}")
    if not 0 < low < _MOST_CHARACTERS or not 0 < high < _MOST_CHARACTERS or (parameters.base_tokenizer == "ngram" and low > high):
        raise InvalidOptionError(
            f"min_ngram_length must be from 1 to max_ngram_length, and both below {_MOST_CHARACTERS}, not {low} and {high}"
        )
    most = parameters.max_token_length
    if most is not None and not 0 <= most < 1 << 31:
        raise InvalidOptionError(f"max_token_length must be a number of bytes or None, not {most}")
