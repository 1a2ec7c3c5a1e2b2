"""Analyzers: a text or a JSON document becomes tokens, which are split, filtered, stemmed and folded.

The filters are applied in this order: long tokens are dropped, letters become small ones, words are stemmed, stop words are dropped, and
characters are folded into ASCII. Stop words are thus compared with stems.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any

from lance_spark.errors import CorruptFileError, InvalidOptionError, UnsupportedFeatureError
from lance_spark.index.text.analysis.ascii_folding import folded
from lance_spark.index.text.analysis.parameters import TextParameters
from lance_spark.index.text.analysis.stop_words import stop_words, stop_words_of_all
from lance_spark.index.text.analysis.tokenizers import Tokens, tokenizer_of

_NEW_CAPITALS = {
    **{0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7CE: 0xA7CF, 0xA7D2: 0xA7D3, 0xA7D4: 0xA7D5, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B},
    **{0x10D50 + i: 0x10D70 + i for i in range(22)},
    **{0x16EA0 + i: 0x16EBB + i for i in range(25)},
}
"""Capital letters of Unicode 16 and 17, which Python may not know, and their small ones."""

_CACHED_TOKENS = 1 << 16
"""Tokens whose filtered forms are remembered."""

_MOST_NESTED = 128
"""JSON documents are not nested deeper, as in pylance."""


def lower_cased(token: str) -> str:
    """The token in small letters; unlike in Python, a capital sigma becomes the same letter at the end of a word as elsewhere."""
    if token.isascii():
        return token.lower()
    return token.replace("Σ", "σ").lower().translate(_NEW_CAPITALS)


class Analyzer:
    """Splits texts into the tokens of an index with these parameters. Raises UnsupportedFeatureError for parameters that are not known."""

    def __init__(self, parameters: TextParameters) -> None:
        self.parameters = parameters
        self._split = tokenizer_of(parameters)
        self._filtered = lru_cache(_CACHED_TOKENS)(self.filtered)
        if parameters.lance_tokenizer not in (None, "text", "json"):
            raise UnsupportedFeatureError(f"the documents of the index are of the unknown kind {parameters.lance_tokenizer!r}")
        _ = self._stem

    @property
    def is_json(self) -> bool:
        """Whether the documents are JSON, whose tokens are "path,type,value"."""
        return self.parameters.lance_tokenizer == "json"

    def document(self, text: str) -> Tokens:
        """The tokens of a document and their positions."""
        return self._of_json(text) if self.is_json else self.text(text)

    def query(self, text: str) -> Tokens:
        """The tokens of the text of a query; of JSON documents, it is a list of `path,type,value` with semicolons between them.

        Equal tokens at one position, as ngrams have, count once.
        """
        pairs = dict.fromkeys(zip(*(self._of_triplets(text) if self.is_json else self.text(text))))
        return [token for token, _ in pairs], [place for _, place in pairs]

    def text(self, text: str) -> Tokens:
        """The tokens of a text that are left by the filters, and their positions before filtering."""
        found, places = self._split(text)
        tokens: list[str] = []
        positions: list[int] = []
        for token, place in zip(found, places):
            kept = self._filtered(token)
            if kept is not None:
                tokens.append(kept)
                positions.append(place)
        return tokens, positions

    def filtered(self, token: str) -> str | None:
        """The token after all filters; None if one drops it."""
        parameters = self.parameters
        if parameters.max_token_length is not None and len(token.encode()) >= parameters.max_token_length:
            return None
        if parameters.lower_case:
            token = lower_cased(token)
        if self._stem is not None:
            token = self._stem(token)
        if token in self._stop_words:
            return None
        return folded(token) if parameters.ascii_folding else token

    @cached_property
    def _stem(self) -> Callable[[str], str] | None:
        if not self.parameters.stem:
            return None
        import Stemmer  # compiled code, which most tables do not need

        try:
            stem: Callable[[str], str] = Stemmer.Stemmer(self.parameters.language.lower(), 0).stemWord
        except KeyError as e:
            raise UnsupportedFeatureError(f"no stemmer is known for the language {self.parameters.language!r} of the index") from e
        return stem

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        if not self.parameters.remove_stop_words:
            return frozenset()
        own = self.parameters.custom_stop_words
        if own is not None:
            return frozenset(own)
        is_of_all = self.parameters.base_tokenizer in ("icu", "icu/split")
        return stop_words_of_all() if is_of_all else stop_words(self.parameters.language)

    def _of_json(self, text: str) -> Tokens:
        try:
            tokens = [token for path, value in _leaves(json.loads(text), "", 0) for token in self._of_leaf(path, value)]
        except (ValueError, RecursionError) as e:
            raise CorruptFileError(f"a JSON document is invalid: {e}") from e
        return tokens, list(range(len(tokens)))

    def _of_leaf(self, path: str, value: Any) -> list[str]:
        match value:
            case str():
                return [f"{path},str,{token}" for token in self.text(value)[0]]
            case None:
                return [f"{path},null,null"]
            case bool():
                return [f"{path},bool,{str(value).lower()}"]
        return [f"{path},number,{json.dumps(value)}"]

    def _of_triplets(self, text: str) -> Tokens:
        tokens: list[str] = []
        for triplet in text.split(";"):
            path, *rest = triplet.split(",", 2)
            if len(rest) != 2 or rest[0] not in ("str", "number", "bool", "null"):
                raise InvalidOptionError(
                    f"a query of JSON documents has parts 'path,type,value' with a type of str, number, bool or null, not {triplet!r}"
                )
            kind, value = rest
            tokens += [f"{path},str,{token}" for token in self.text(value)[0]] if kind == "str" else [triplet]
        return tokens, list(range(len(tokens)))


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The values in a JSON document that are no objects and lists, in order, with their paths; elements of lists have the list's."""
    if depth > _MOST_NESTED:
        raise ValueError(f"it is nested deeper than {_MOST_NESTED}")
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path, depth + 1)
    else:
        yield path, value
