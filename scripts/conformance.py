"""docs/conformance.md: the sections of the specification, each with the tests that prove it, drawn from the marks of the tests.

`python scripts/conformance.py` writes the page; `--check` says with its exit status whether it is up to date. A test is marked
`@pytest.mark.spec("table.md", "Fragments")`; a file of tests has the mark in `pytestmark`.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance.md"
HEAD = """# Conformance

Each section of the documents of the Lance format, with the tests that prove it. pylance opens, validates and changes the tables that these
tests write, and the other way around. `python scripts/conformance.py` draws this page from the marks of the tests.
"""

TABLE: Mapping[str, str | None] = {
    "Manifest": None,
    "Schema & Fields": None,
    "Unenforced Primary Key": "`restore` goes back to a version from before the key was declared. A position that is not an integer is "
    "refused in new columns; pylance ignores it.",
    "Fragments": None,
    "Data Evolution": None,
    "Data Files": None,
    "Deletion Files": None,
    "Storage Layout": "A cleanup removes files at base paths if this package wrote them for the table; pylance removes none there. A "
    "compaction leaves rows at their base path, unless it is asked to move them; that of pylance moves them to the table's own folder.",
    "Transactions": None,
    "Row Lineage": None,
    "Indices": None,
    "Versioning": None,
}
SCHEMA: Mapping[str, str | None] = {
    "Primitive Types": None,
    "Floating Point Types": None,
    "String and Binary Types": None,
    "Decimal Types": "Spark has no decimals of more than 38 digits: leave out such a column by the option `columns`, or read it "
    "with `Dataset`.",
    "Date and Time Types": None,
    "Timestamp Types": None,
    "Struct Type": None,
    "List Types": None,
    "Fixed-Size List Types": None,
    "Fixed-Size Binary Type": None,
    "Dictionary Type": "Ordered dictionaries are written as unordered ones, as the conversion table says: pylance appends to no other.",
    "Map Type": None,
    "Blob Type": None,
    "BFloat16 Type": None,
    "Field ID Assignment": None,
    "Field ID Properties": "Ids of dropped columns are not used again, although the document says that they may be.",
    "Using Field IDs": None,
    "Primary Key Metadata": None,
    "Encoding Metadata": None,
    "Arrow Extension Type Metadata": None,
    "Field Message": None,
    "Schema Message": None,
    "Schema Evolution": "Keys and values of maps, and fields of packed structs, cannot be moved.",
    "Type Conversion Reference": None,
}
PARTITIONED: Mapping[str, str | None] = {
    "Metadata Definition": None,
    "Physical Layout and Naming": None,
    "Namespace Naming": None,
    "Partition Value Discovery": None,
    "Schema Consistency Rules": None,
    "Schema Evolution Rules": "A dropped column leaves the schema, as on the page that was published later; `lance:deprecated` of other "
    "writers is respected.",
    "Partitioning": "New namespaces have the form of the page that was published later, unless they are made with `form='document'`. "
    "pylance knows neither.",
    "Partition Expression": "Functions that mean the same in DataFusion and Spark are evaluated; fields with others are read, not written.",
    "Partition Pruning": None,
    "Partition Evolution": None,
    "ACID Enforcement": None,
    "Appendix D: Common Partition Expressions": "The document does not say which bytes `hash` hashes: `int64` as 8 bytes, little endian, "
    "text as UTF-8, binary values as they are; other types are refused. The hash is a signed number.",
    "Appendix E: Schema Evolution Example": None,
}
FORMAT: Mapping[str, str | None] = {
    "Dataset Directory": None,
    "Fragments": None,
    "File Structure": None,
    "File Version": None,
    "File Encodings": None,
    "Feature Flags": None,
    "Fields": None,
    "Dataset Update and Schema Evolution": None,
    "Deletion": None,
    "Committing Datasets": None,
    "Manifest Naming Schemes": None,
    "Conflict resolution": None,
    "External Manifest Store": None,
    "Statistics": "Only files of version 0.1 have statistics of pages, which are read and pass over batches. Such files are not written "
    "(a table of them is migrated to 2.2); those of 2.x have none.",
    "Move-Stable Row IDs": None,
    "Assigning row ids": None,
    "Row ID sequences": "Sequences of any size are written into the manifest: pylance opens no table whose row ids are in a file.",
    "Row ID index": None,
}
DOCUMENTS: Mapping[str, Mapping[str, str | None]] = {
    "table.md": TABLE,
    "schema.md": SCHEMA,
    "partitioned-namespace.md": PARTITIONED,
    "format-document.md": FORMAT,
}
"""The sections of each document that say something to test, and what is deliberately different."""
_TITLES = {
    "table.md": "The table",
    "schema.md": "The schema",
    "partitioned-namespace.md": "Partitioned namespaces",
    "format-document.md": "The format document",
}

Section = tuple[str, str]
"""A document and one of its sections."""


def marked() -> dict[Section, list[str]]:
    """The tests of each section, as `path: name`, in the order of the files. Raises ValueError for a section that no document has."""
    found: dict[Section, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        name = str(path.relative_to(ROOT))
        for section in _of_file(tree):
            found[section].append(f"`{name}`")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                for section in (s for decorator in node.decorator_list for s in _sections(decorator)):
                    found[section].append(f"`{name}`: {node.name.removeprefix('test_').replace('_', ' ')}")
    if unknown := [section for section in found if section[1] not in DOCUMENTS.get(section[0], {})]:
        raise ValueError(f"no document has these sections: {unknown}")
    return found


def _of_file(tree: ast.Module) -> Iterator[Section]:
    """The sections in `pytestmark`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            values = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            for value in values:
                yield from _sections(value)


def _sections(mark: ast.expr) -> Iterator[Section]:
    """The section of a call of `pytest.mark.spec`; none of another expression."""
    if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "spec":
        document, section = (argument.value for argument in mark.args if isinstance(argument, ast.Constant))
        yield str(document), str(section)


def page() -> str:
    """The text of docs/conformance.md."""
    tests = marked()
    parts = [HEAD]
    for document, sections in DOCUMENTS.items():
        parts.append(f"\n## {_TITLES[document]}\n\n| section of `{document}` | tests | deliberately different |\n|---|---|---|\n")
        for section, difference in sections.items():
            parts.append(f"| {section} | {'<br>'.join(tests.get((document, section), []))} | {difference or ''} |\n")
    return "".join(parts)


def untested() -> list[Section]:
    """The sections without a test."""
    tests = marked()
    return [(document, section) for document, sections in DOCUMENTS.items() for section in sections if (document, section) not in tests]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())
