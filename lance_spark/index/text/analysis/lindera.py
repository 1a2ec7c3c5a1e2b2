"""The tokenizers of Japanese and Korean, `lindera/..`: a text is cut into morphemes by the model of this name.

The library must be the one that pylance has, since the files of models change between its versions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.text.analysis.language_models import HOME, model_folder

FAMILY = "lindera"
_VERSION = "3."


def words_by(name: str) -> Callable[[str], tuple[list[str], list[int]]]:
    """What cuts texts into words and their numbers, for a tokenizer such as "lindera/ipadic".

    Raises UnsupportedFeatureError without the library or the model.
    """
    tokenizer = _tokenizer(name, model_folder(name))

    def words_of(text: str) -> tuple[list[str], list[int]]:
        found = tokenizer.tokenize(text)
        return [token.surface for token in found], [token.position for token in found]

    return words_of


@cache
def _tokenizer(name: str, folder: Path) -> Any:
    try:
        library = importlib.import_module("lindera")
    except ImportError as e:
        raise UnsupportedFeatureError(f"the tokenizer {name!r} needs a library: pip install 'lance-spark[cjk]'") from e
    if not library.version().startswith(_VERSION):
        raise UnsupportedFeatureError(
            f"the tokenizer {name!r} needs the library lindera-python {_VERSION}x, whose models pylance reads, not {library.version()}: "
            "pip install 'lance-spark[cjk]'"
        )
    config = folder / "config.yml"
    if not config.exists():
        raise UnsupportedFeatureError(f"the tokenizer {name!r} needs its model: {config} does not exist; {HOME} names the folder of models")
    try:
        return library.TokenizerBuilder().from_file(str(config)).build()
    except (ValueError, OSError, RuntimeError) as e:
        raise UnsupportedFeatureError(f"the tokenizer {name!r} cannot read its model, {config}: {e}") from e
