"""Texts are cut by models of Lindera as pylance cuts them; without the library or the model, an error says what is missing."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import lindera
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import TextParameters
from tests.index.text.analysis.texts import TEXTS

BASE = "lindera/small"
PLAIN: dict[str, Any] = {"base_tokenizer": BASE, "stem": False, "remove_stop_words": False, "ascii_folding": False}
WORDS = [
    *("東京", "京都", "東京都", "都", "に", "住む", "天気", "は", "晴れ", "です"),
    *("の", "私", "これ", "本", "日本", "日本語", "語", "を", "読む"),
]
CLASSES = {
    "DEFAULT": (0, 1, 5000),
    "SPACE": (0, 1, 5000),
    "KANJI": (0, 0, 6000),
    "HIRAGANA": (0, 1, 5500),
    "KATAKANA": (1, 1, 4000),
    "ALPHA": (1, 1, 4000),
}
RANGES = "0x0020 SPACE\n0x0041..0x007A ALPHA\n0x3041..0x309F HIRAGANA\n0x30A1..0x30FF KATAKANA\n0x4E00..0x9FA5 KANJI\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of language models, with a small one."""
    home = tmp_path_factory.mktemp("models")
    source = home / "source"
    source.mkdir()
    costs = [f"{word},0,0,{1000 * (4 - min(len(word), 3))},noun,*,*,*,*,*,{word},*,*\n" for word in WORDS]
    (source / "lex.csv").write_text("".join(costs), "utf-8")
    (source / "matrix.def").write_text("1 1\n0 0 0\n")
    (source / "char.def").write_text("".join(f"{name} {one} {group} 2\n" for name, (one, group, _) in CLASSES.items()) + RANGES)
    (source / "unk.def").write_text("".join(f"{name},0,0,{cost},noun,*,*,*,*,*,*,*,*\n" for name, (_, _, cost) in CLASSES.items()))
    model = home / BASE
    model.mkdir(parents=True)
    lindera.build_dictionary(str(source), str(model / "main"), lindera.Metadata.create_default())
    (model / "config.yml").write_text(f'segmenter:\n  mode: "normal"\n  dictionary: "{model / "main"}"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(home))
        yield home


def test_texts_are_cut_as_pylance_cuts_them(home: Path) -> None:
    draw = random.Random(2)
    others = ["a", "1", " ", "，", "한", "é", "\n", "カ", "漢", "😀", ""]
    texts = [*TEXTS.values(), *("".join(draw.choice([*WORDS, *others]) for _ in range(300)) for _ in range(5)), "東京都に住む"]
    for text in texts:
        tokens, places = Analyzer(TextParameters(**PLAIN)).text(text)
        assert [(t, p - places[0]) for t, p in zip(tokens, places)] == [(t.text, t.position) for t in lance.tokenize(text, **PLAIN)]
    assert tokens == ["東京都", "に", "住む"]


def test_an_index_of_pylance_is_searched(home: Path, tmp_path: Path) -> None:
    rows = pa.table({"id": range(3), "text": ["東京都に住む", "京都の天気は晴れです", "これは日本語の本です"]})
    lance.write_dataset(rows, tmp_path / "t").create_scalar_index("text", "INVERTED", **PLAIN)
    for query in ("京都", "天気 です", "日本"):
        expected = lance.dataset(tmp_path / "t").to_table(columns=["id"], full_text_query=query)
        assert (
            Dataset.open(tmp_path / "t").scan(columns=["id"], full_text_query=query).to_table()["id"].to_pylist()
            == expected["id"].to_pylist()
        )


def test_what_is_missing_is_named(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"'lindera/ipadic'.*config\.yml does not exist.*LANCE_LANGUAGE_MODEL_HOME"):
        Analyzer(TextParameters(base_tokenizer="lindera/ipadic"))
    broken = tmp_path / "lindera" / "broken"
    broken.mkdir(parents=True)
    (broken / "config.yml").write_text("segmenter:\n  dictionary: /nowhere\n")
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(tmp_path))
    with pytest.raises(UnsupportedFeatureError, match=r"lindera/broken.*cannot read its model"):
        Analyzer(TextParameters(base_tokenizer="lindera/broken"))


@pytest.mark.parametrize(
    ("module", "named"),
    [("None", "pip install 'lance-spark[cjk]'"), ("types.SimpleNamespace(version=lambda: '6.0')", "whose models pylance reads, not 6.0")],
)
def test_without_the_right_library_the_error_says_how_to_install_it(module: str, named: str) -> None:
    script = f"""
import sys, types; sys.modules["lindera"] = {module}
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import TextParameters
try: Analyzer(TextParameters(base_tokenizer="lindera/ipadic"))
except Exception as e: print(type(e).__name__, e)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.startswith("UnsupportedFeatureError")
    assert named in out
