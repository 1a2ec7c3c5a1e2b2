"""Chinese texts are cut into the words that pylance cuts them into, and searched by them."""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.query import MatchQuery, PhraseQuery

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.text.analysis import jieba
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import TextParameters

PLAIN: dict[str, Any] = {"base_tokenizer": "jieba/default", "stem": False, "remove_stop_words": False}
OTHERS = ["，", "。", " ", "abc", "X1", "3.14", "3.14X1", "\n", "😀", "é", "ไทย", ""]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The words of the dictionary, which pylance finds in the folder of language models."""
    package = importlib.util.find_spec("jieba")
    assert package is not None
    folder = Path(str(package.origin)).parent
    home = tmp_path_factory.mktemp("models")
    (home / jieba.NAME).mkdir(parents=True)
    shutil.copy(folder / "dict.txt", home / jieba.NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(home))
        yield [line.split()[0] for line in (folder / "dict.txt").read_text("utf-8").splitlines()]


def text(draw: random.Random, words: list[str]) -> str:
    return "".join(draw.choice([draw.choice(words), chr(draw.randrange(0x4E00, 0x9FFF)), draw.choice(OTHERS)]) for _ in range(12))


def test_texts_are_cut_as_pylance_cuts_them(words: list[str]) -> None:
    draw = random.Random(5)
    analyzer = Analyzer(TextParameters(**PLAIN))
    for given in (
        "我来到北京清华大学, hello World 中华人民共和国成立了",
        "".join(text(draw, words) for _ in range(300)),
        *(text(draw, words) for _ in range(3)),
    ):
        tokens, places = analyzer.text(given)
        first = min(places)
        assert [(t, p - first) for t, p in zip(tokens, places)] == [(t.text, t.position) for t in lance.tokenize(given, **PLAIN)]


def test_an_index_of_chinese_texts_finds_what_that_of_pylance_finds(words: list[str], tmp_path: Path) -> None:
    draw = random.Random(6)
    few = [*words[100_000:100_050], "北京", "清华大学", "大学"]
    rows = pa.table({"id": range(300), "text": [text(draw, few) for _ in range(300)]})
    for name in ("theirs", "ours"):
        lance.write_dataset(rows, tmp_path / name)
    lance.dataset(tmp_path / "theirs").create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    Dataset.open(str(tmp_path / "ours")).create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    for kind, query in (("match", "清华大学"), ("match", f"北京 {few[3]}"), ("phrase", "大学"), ("phrase", few[7])):
        asked = MatchQuery(query, "text") if kind == "match" else PhraseQuery(query, "text")
        theirs = scores(lance.dataset(tmp_path / "theirs").to_table(columns=["id"], full_text_query=asked))
        assert theirs
        assert scores(lance.dataset(tmp_path / "ours").to_table(columns=["id"], full_text_query=asked)) == pytest.approx(theirs, rel=1e-5)
        for name in ("theirs", "ours"):
            scan = Dataset.open(str(tmp_path / name)).scan(columns=["id"], full_text_query={kind: {"query": query, "column": "text"}})
            assert scores(scan.to_table()) == pytest.approx(theirs, rel=1e-5)


def scores(found: pa.Table) -> dict[int, float]:
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist()))


def test_another_dictionary_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / jieba.NAME).mkdir(parents=True)
    (tmp_path / jieba.NAME / "dict.txt").write_text("我来 10 v\n", "utf-8")
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(tmp_path))
    jieba._library.cache_clear()
    with pytest.raises(UnsupportedFeatureError, match=r"common dictionary.*dict\.txt"):
        Analyzer(TextParameters(**PLAIN))


def test_without_the_library_the_error_says_how_to_install_it() -> None:
    script = """
import sys; sys.modules["rjieba"] = None
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import TextParameters
try: Analyzer(TextParameters(base_tokenizer="jieba/default"))
except Exception as e: print(type(e).__name__, e)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.startswith("UnsupportedFeatureError")
    assert "pip install 'lance-spark[cjk]'" in out
