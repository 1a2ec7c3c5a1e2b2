"""The parts of the planner that a Spark may lack, as `lancespark/features.txt` describes them, and the sources of each."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable

import pyspark

FILE = "lancespark/features.txt"
"""The list of features, beside the sources."""

SENTENCES = "lancespark/statements/sentences.txt"
"""How statements begin, beside the sources."""

SCAN = "scan"
"""The feature that all others need. It has the sources of no other one."""


@dataclass(frozen=True)
class Feature:
    """What the file says of a feature, besides what it uses."""

    name: str
    needs: tuple[str, ...]
    """Features that it needs besides `SCAN`."""
    since: tuple[int, ...]
    """The first version of Spark that has what it uses."""
    also: tuple[str, ...]
    """Its classes in the package `lancespark`: the names that users and history servers know, and what makes these."""


def text(path: str = FILE) -> str:
    """The content of a file."""
    return (importlib.resources.files(__package__) / path).read_text(encoding="ascii")


@cache
def features() -> dict[str, Feature]:
    """The features by name, in the order of the file."""
    found: dict[str, dict[str, list[str]]] = {}
    said: dict[str, list[str]] = {}
    for line in text().splitlines():
        key, _, value = line.partition(" ")
        if key == "feature":
            said = found[value] = {}
        elif key in ("needs", "since", "also"):
            said[key] = value.split()
    return {name: _feature(name, said) for name, said in found.items()}


def _feature(name: str, said: dict[str, list[str]]) -> Feature:
    (since,) = said.get("since", ["0"])
    return Feature(name, tuple(said.get("needs", ())), _version(since), tuple(said.get("also", ())))


def _version(text: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(map(int, text.split(".")[:2]))


def absent() -> list[str]:
    """The features of newer versions of Spark than the one that is installed."""
    own = _version(pyspark.__version__)
    return [feature.name for feature in features().values() if own < feature.since]


def needed(name: str) -> list[str]:
    """The features that a feature needs, directly or not, and itself."""
    names = dict.fromkeys([SCAN])
    for other in features()[name].needs:
        names.update(dict.fromkeys(needed(other)))
    return [*names, name] if name not in names else [*names]


def feature_of(path: str) -> str:
    """The feature of a source or of a class file: lancespark/conditions/ExtraConditions.java -> conditions."""
    _, _, below = path.partition("/")
    first = below.partition("/")[0].partition(".")[0]
    if first in features():
        return first
    return next((feature.name for feature in features().values() if first in feature.also), SCAN)


def sources(without: Collection[str] = ()) -> dict[str, str]:
    """The planner's Java sources by path, such as lancespark/core/Session.java, except those of the features `without`."""
    root = importlib.resources.files(__package__)
    texts = {path: file.read_text(encoding="ascii") for path, file in _java_files(root, "")}
    texts |= dict([_in_java("lancespark/core/FeatureLines", text().splitlines()), _in_java("lancespark/statements/Sentences", sentences())])
    return {path: text for path, text in texts.items() if feature_of(path) not in without}


def _java_files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _java_files(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".java"):
            yield path + entry.name, entry


def sentences() -> list[str]:
    """How statements begin, without the words that may be left out, once with them and once without."""
    found = [line for line in text(SENTENCES).splitlines() if line and not line.startswith("#")]
    while any("[" in line for line in found):
        found = [each for line in found for each in _with_and_without(line)]
    return found


def _with_and_without(sentence: str) -> list[str]:
    before, opened, rest = sentence.partition("[")
    words, _, after = rest.partition("] ")
    return [before + words + " " + after, before + after] if opened else [sentence]


def _in_java(path: str, lines: Iterable[str]) -> tuple[str, str]:
    """The path and source of a class that has these lines for Java: class loaders then need only find classes."""
    package, _, name = path.rpartition("/")
    texts = ", ".join(map(json.dumps, lines))
    return f"{path}.java", f"package {package.replace('/', '.')}; class {name} {{ static final String[] ALL = {{ {texts} }}; }}"
