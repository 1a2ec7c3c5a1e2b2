"""Texts are split into the same tokens, at the same positions, as pylance splits them."""

from __future__ import annotations

import random
from typing import Any

import lance
import pytest

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.text.analysis.alphanumeric import character_class
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import TextParameters

TEXTS = [
    "The quick brown fox jumps over the lazy dogs, running easily; don't stop_me e-mail 3.14",
    "ÀÉ résumé Straße Łódź Œuvre İstanbul ΟΔΟΣ Ⅷ ① ½ x² 10⁵ ﬁ ｆｕｌｌ ǅ",
    "हिन्दी नमस्ते 日本語 テスト данные поиска αβγ العربية עברית 😀 a😀b",
    "getHTTP2Response parse_json2value __init__ _ab_cd foo->bar a==b x**=2 v1.2.3 3DModel IPv4Address",
    "a\x0bb\x1fc\xa0d\t\n e\u0301 a\u0301",
    "x" * 39 + " " + "y" * 40 + " " + "é" * 19 + " " + "é" * 20,
    "",
    " ",
]
WORDS = {
    "Arabic": "الكتاب في المدرسة",
    "Danish": "bilerne og husene var",
    "Dutch": "de boeken waren gelezen",
    "English": "the libraries were organised very generously",
    "Finnish": "kirjastossa olivat kirjat",
    "French": "les bibliothèques étaient fermées",
    "German": "die Häuser waren größer",
    "Greek": "τα βιβλία και οι δρόμοι",
    "Hungarian": "a könyvtárakban és házakban",
    "Italian": "le biblioteche erano chiuse",
    "Norwegian": "bilene og husene hadde",
    "Portuguese": "as bibliotecas estavam fechadas",
    "Romanian": "bibliotecile erau închise",
    "Russian": "книги и библиотеки были",
    "Spanish": "las bibliotecas estaban cerradas",
    "Swedish": "böckerna och husen hade",
    "Tamil": "புத்தகங்கள் மற்றும்",
    "Turkish": "kitaplar ve evler için",
}


def tokens(text: str, **parameters: Any) -> list[tuple[str, int]]:
    """Our tokens, with positions from the first one."""
    words, places = Analyzer(TextParameters(**parameters)).text(text)
    first = min(places, default=0)
    return [(word, place - first) for word, place in zip(words, places)]


def expected(text: str, **parameters: Any) -> list[tuple[str, int]]:
    return [(token.text, token.position) for token in lance.tokenize(text, **parameters)]


def parameters_of(base: str, draw: random.Random) -> dict[str, Any]:
    """Random parameters of a tokenizer."""
    chosen: dict[str, Any] = {name: draw.random() < 0.6 for name in ("lower_case", "stem", "remove_stop_words", "ascii_folding")}
    chosen |= {"base_tokenizer": base, "max_token_length": draw.choice([40, None, 5])}
    if base == "ngram":
        least = draw.randint(1, 4)
        chosen |= {"min_ngram_length": least, "max_ngram_length": least + draw.randint(0, 3), "prefix_only": draw.random() < 0.3}
    if base == "code":
        for name in ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators"):
            chosen[name] = draw.random() < 0.5
    return chosen


@pytest.mark.parametrize("base", ["simple", "whitespace", "raw", "ngram", "code"])
def test_every_option_gives_the_tokens_of_pylance(base: str) -> None:
    draw = random.Random(base)
    for _ in range(20):
        chosen = parameters_of(base, draw)
        for text in TEXTS:
            assert tokens(text, **chosen) == expected(text, **chosen), (text, chosen)


@pytest.mark.parametrize("language", WORDS)
def test_words_are_stemmed_and_stop_words_dropped_by_language(language: str) -> None:
    for text in (*WORDS.values(), *TEXTS):
        for stem in (True, False):
            assert tokens(text, language=language, stem=stem) == expected(text, language=language, stem=stem), text


def test_own_stop_words_replace_those_of_the_language() -> None:
    text = "Running the cats"
    assert tokens(text, custom_stop_words=("run", "Cat")) == expected(text, custom_stop_words=["run", "Cat"]) == [("the", 0), ("cat", 1)]


def test_characters_of_all_of_unicode_are_split_lowered_and_folded_as_pylance_does() -> None:
    draw = random.Random(1)
    points = [p for p in (*range(1, 0x3100), *draw.sample(range(0x3100, 0x110000), 9000)) if not 0xD800 <= p < 0xE000]
    text = " ".join(f"a{chr(p)}b" for p in points)
    for chosen in ({}, {"lower_case": False}, {"ascii_folding": False}):
        plain: dict[str, Any] = {"stem": False, "remove_stop_words": False, **chosen}
        assert tokens(text, **plain) == expected(text, **plain)


def test_python_agrees_about_most_alphanumeric_characters() -> None:
    assert character_class().startswith("\\U00000030-\\U00000039\\U00000041-\\U0000005a")


def test_json_documents_have_tokens_of_path_type_and_value() -> None:
    analyzer = Analyzer(TextParameters(lance_tokenizer="json"))
    document = '{"a": {"b": 7, "c": [true, null, "Two cats"]}, "d": 1.5}'
    assert analyzer.document(document)[0] == [
        "a.b,number,7",
        "a.c,bool,true",
        "a.c,null,null",
        "a.c,str,two",
        "a.c,str,cat",
        "d,number,1.5",
    ]
    assert analyzer.query("a.c,str,Cats;a.b,number,7")[0] == ["a.c,str,cat", "a.b,number,7"]


@pytest.mark.parametrize(
    ("base", "library"), [("jieba/own", "dictionary"), ("lindera/ipadic", "model"), ("icu/x", "unknown"), ("zz", "unknown")]
)
def test_a_tokenizer_that_is_not_supported_is_named(base: str, library: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=library) as raised:
        Analyzer(TextParameters(base_tokenizer=base))
    assert base in str(raised.value)
