"""What the planner's compiled classes use of Spark, for `features.txt`. `python -m tests.spark.used_of_spark JAR` writes it there."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

from lance_spark.spark.jvm.features import FILE, feature_of, features, needed, text
from tests.spark.class_files import references, strings
from tests.spark.processes import ROOT

PUBLIC = re.compile(
    r"org\.apache\.spark\.(sql\.(connector|types|util|vectorized)\.(?!.*CatalogV2Util)|"
    r"sql\.(SparkSession|SparkSessionExtensions|RuntimeConfig)$|SparkContext$|TaskContext$|util\.TaskCompletionListener$)"
)
"""Spark's public connector API, on which the planner relies."""

GENERATED = "InstalledStatementParser"
"""The class that is made of the methods of one version's parser. A session of another version has one of its own."""

Entries = set[tuple[str, str]]
"""Classes, with "", and members of them."""


def used(jar: Path, of_public: bool = False) -> dict[str, Entries]:
    """By feature: what its classes refer to, either of the public API or of the rest of Spark."""
    found: dict[str, Entries] = {name: set() for name in features()}
    for name, content in _classes(jar):
        of_spark = {entry for entry in references(content) if entry[0].startswith("org.apache.spark.")}
        found[feature_of(name)] |= {entry for entry in of_spark if bool(PUBLIC.match(entry[0])) == of_public}
    return found


def own_classes(jar: Path) -> dict[str, set[str]]:
    """By class file: the planner's own classes that it refers to, as paths."""
    found = {name: {owner.replace(".", "/") for owner, _member in references(content)} for name, content in _classes(jar)}
    return {name: {owner for owner in owners if owner.startswith("lancespark/")} for name, owners in found.items()}


def words(jar: Path) -> dict[str, set[str]]:
    """By feature: the strings in its classes."""
    found: dict[str, set[str]] = {name: set() for name in features()}
    for name, content in _classes(jar):
        found[feature_of(name)].update(strings(content))
    return found


def _classes(jar: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(jar) as opened:
        names = [name for name in opened.namelist() if name.endswith(".class") and GENERATED not in name]
        return [(name, opened.read(name)) for name in names]


def named() -> dict[str, dict[str, list[str]]]:
    """By feature and class: the members that the file says are named in strings."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in text().splitlines():
        key, *rest = line.split(" ")
        if key == "feature":
            of_feature = found[rest[0]] = {}
        elif key == "named":
            of_feature[rest[0]] = rest[1:]
    return found


def written(jar: Path) -> str:
    """The file with what the classes of the jar use."""
    of_classes = used(jar)
    sections = [section.strip("\n").splitlines() for section in re.split(r"\n(?=feature )", text())]
    return "\n\n".join("\n".join(_section(lines, of_classes)) for lines in sections) + "\n"


def _section(lines: list[str], of_classes: dict[str, Entries]) -> list[str]:
    by_hand = [line for line in lines if line and not line.startswith("uses ")]
    key, _, name = by_hand[0].partition(" ")
    if key != "feature":
        return by_hand
    others = set().union(*(of_classes[other] for other in needed(name) if other != name))
    own = of_classes[name] - others
    owners = sorted({owner for owner, _member in own})
    return [*by_hand, *(" ".join(["uses", owner, *_members(own, owner)]) for owner in owners)]


def _members(entries: Entries, owner: str) -> list[str]:
    return sorted(member for other, member in entries if other == owner and member)


if __name__ == "__main__":
    (ROOT / "lance_spark/spark/jvm" / FILE).write_text(written(Path(sys.argv[1])), encoding="ascii")
