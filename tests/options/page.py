"""The table of docs/options.md, which is made from the fields of the options."""

from __future__ import annotations

from lance_spark.options.field import Option, options_of
from lance_spark.spark.options.given import HIDDEN
from lance_spark.spark.options.known import CLASSES, KNOWN, SIZE_SUFFIX
from lance_spark.spark.options.others import IGNORED, UNBUILT
from lance_spark.spark.options.place import NAMESPACE, STORAGE
from lance_spark.spark.options.read import ReadOptions
from lance_spark.table.feed.options import FeedOptions
from lance_spark.table.write.new_schema import COLUMN_OPTIONS

_OF_READS = (ReadOptions, FeedOptions)
_PREFIXES = (
    (STORAGE, "A storage option, such as `storage.endpoint`; the keys are those of pylance."),
    (NAMESPACE, "A property of the namespace, such as `namespace.uri`."),
)


def table() -> str:
    """The options as a Markdown table, and those of other connectors."""
    rows = ["| option | aliases | applies to | meaning |", "|---|---|---|---|"]
    for o in KNOWN.values():
        rows.append(f"| `{o.name}` | {_listed(o.aliases)} | {_applies_to(o)} | {o.help} |")
    for prefix, help in _PREFIXES:
        names = f"`{prefix}<key>` | `{prefix}{HIDDEN}<key>`"
        rows.append(f"| {names} | both | {help} Spark hides the value of the alias. |")
    size = "The size of a fixed-size list: the type of an array column of a new table."
    rows.append(f"| `<col>{SIZE_SUFFIX}` | | writes | {size} |")
    for name, column in COLUMN_OPTIONS.items():
        rows.append(f"| `<col>.{name}` | | writes | For a column of a new table. {column.help} |")
    ignored = f"Options of the JVM connector that have no effect here: {_listed(IGNORED)}."
    unbuilt = "Options of other connectors that are not implemented and raise an error: "
    return "\n".join([*rows, "", ignored, "", f"{unbuilt}{_listed(tuple(UNBUILT))}."])


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _applies_to(option: Option) -> str:
    classes = [cls for cls in CLASSES if option.name in {o.name for o in options_of(cls).values()}]
    if all(cls in _OF_READS for cls in classes):
        return "reads"
    return "both" if any(cls in _OF_READS for cls in classes) else "writes"
