"""The parameters of signatures: those of the page MinHash LSH Index of the index specification."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lance_spark._proto import index_pb2
from lance_spark.buffers.messages import discard_unknown_fields, parse_message
from lance_spark.errors import CorruptFileError, InvalidOptionError, UnsupportedFeatureError
from lance_spark.index.text.analysis.parameters import TextParameters, details_of, new_parameters, parameters_of

MOST_HASHES = 4096
MOST_BANDS = 256
MOST_SHINGLE = (1 << 32) - 1
_NAMES = ("num_hashes", "num_bands", "shingle_size", "tokenizer")
_PLAIN: Mapping[str, object] = {"stem": False, "remove_stop_words": False}
"""Parameters of the tokenizer that differ from those of a full-text index: words that are made equal make texts too similar."""
_WITH_RESOURCES = ("jieba", "lindera")
"""Tokenizers whose files a manifest would have to tell; indexes with them are not supported."""


PLAIN_WORDS = new_parameters(_PLAIN, False)


@dataclass(frozen=True)
class MinHash:
    """How texts are signed: `num_hashes` numbers of 16 bits, of shingles of so many tokens. Each of `num_bands` parts is looked up."""

    num_hashes: int = 128
    num_bands: int = 16
    shingle_size: int = 3
    tokenizer: TextParameters = PLAIN_WORDS

    @property
    def values_per_band(self) -> int:
        """The number of a signature's values in each band."""
        return self.num_hashes // self.num_bands


def new_min_hash(given: Mapping[str, object]) -> MinHash:
    """The parameters as users give them, `tokenizer` as a mapping. Raises InvalidOptionError or UnsupportedFeatureError."""
    if unknown := sorted(given.keys() - set(_NAMES)):
        raise InvalidOptionError(
            f"an index of the kind MINHASHLSH has no parameter {unknown[0]!r}; its parameters are: {', '.join(_NAMES)}"
        )
    tokenizer = given.get("tokenizer", {})
    if not isinstance(tokenizer, Mapping):
        raise InvalidOptionError(f"the parameter tokenizer of a MINHASHLSH index must be a mapping, not {tokenizer!r}")
    text = new_parameters({**_PLAIN, **tokenizer}, False)
    if text.custom_stop_words is not None or text.base_tokenizer.startswith(_WITH_RESOURCES):
        what = "custom_stop_words" if text.custom_stop_words is not None else f"base_tokenizer={text.base_tokenizer!r}"
        raise UnsupportedFeatureError(f"a MINHASHLSH index cannot be made with {what}")
    numbers = {name: given[name] for name in _NAMES[:3] if name in given}
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidOptionError(f"the parameter {name} of a MINHASHLSH index must be a number, not {value!r}")
    found = replace(MinHash(tokenizer=text), **numbers)  # type: ignore[arg-type]
    if problem := _problem(found):
        raise InvalidOptionError(f"a MINHASHLSH index needs {problem}")
    return found


def min_hash_of(details: bytes, what: str) -> MinHash:
    """The parameters in the details of an index. Raises CorruptFileError or UnsupportedFeatureError; `what` names the index."""
    message = parse_message(index_pb2.MinHashLshIndexDetails, details, what)
    if message.signature_version or discard_unknown_fields(message):
        raise UnsupportedFeatureError(f"{what} have signatures of another version, or fields that are not known")
    text = parameters_of(message.tokenizer.SerializeToString(), False, what)
    if text.base_tokenizer.startswith(_WITH_RESOURCES):
        raise UnsupportedFeatureError(f"{what} have base_tokenizer={text.base_tokenizer!r}, which is not supported in a MINHASHLSH index")
    found = MinHash(message.num_hashes, message.num_bands, message.shingle_size, text)
    if problem := _problem(found):
        raise CorruptFileError(f"{what} must have {problem}")
    return found


def known_min_hash(details: Sequence[bytes]) -> MinHash | None:
    """The parameters that all segments of an index have; None if they differ, or are damaged or not supported."""
    try:
        return min_hash_of(details[0], "the details of the index") if len(set(details)) == 1 else None
    except (CorruptFileError, UnsupportedFeatureError):
        return None


def details_of_min_hash(parameters: MinHash) -> bytes:
    """The details of an index with these parameters."""
    return index_pb2.MinHashLshIndexDetails(
        num_hashes=parameters.num_hashes,
        num_bands=parameters.num_bands,
        shingle_size=parameters.shingle_size,
        tokenizer=index_pb2.InvertedIndexDetails.FromString(details_of(parameters.tokenizer)),
    ).SerializeToString()


def bands_for(num_hashes: int, similarity: float) -> int:
    """The lowest number of bands with which 99% of the texts that are so similar share one, or the most that there may be."""
    numbers = [b for b in range(1, min(num_hashes, MOST_BANDS) + 1) if num_hashes % b == 0]
    return next((b for b in numbers if 1 - (1 - math.pow(similarity, num_hashes / b)) ** b >= 0.99), numbers[-1])


def _problem(found: MinHash) -> str | None:
    if not 1 <= found.num_bands <= MOST_BANDS:
        return f"num_bands from 1 to {MOST_BANDS}, not {found.num_bands}"
    if not 1 <= found.num_hashes <= MOST_HASHES or found.num_hashes % found.num_bands:
        return f"num_hashes from 1 to {MOST_HASHES}, a multiple of num_bands, not {found.num_hashes} and {found.num_bands}"
    if not 1 <= found.shingle_size <= MOST_SHINGLE:
        return f"a shingle_size from 1 to {MOST_SHINGLE}, not {found.shingle_size}"
    return None
