"""What the page of settings says, beside what the code knows: the table of properties, and the names that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

from lance_spark.metadata.operations import CONSTRAINT
from lance_spark.options.field import options_of
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.properties import KNOWN

PACKAGE = Path(__file__).parents[1] / "lance_spark"
_CONF = re.compile(r"\"(spark\.lance\.\w+)\"")
_VARIABLE = re.compile(r"\"((?:LANCE|NUMBA)_[A-Z_]+[A-Z])\"|environ(?:\.get\(|\[)\"(\w+)\"")
_MEANINGS = {
    "lance.auto_cleanup.interval": "[automatic cleanup](maintenance.md#automatic-cleanup): after so many commits",
    "lance.auto_cleanup.older_than": "automatic cleanup: the age of the versions that are removed, such as `14days`",
    "lance.auto_cleanup.retain_versions": "automatic cleanup: the number of latest versions to keep",
    "lance_spark.clustering": "the columns by which the table is [clustered](verbs/optimize.md#cluster-a-table); written by lance-spark",
    "lance_spark.primary_key": "in a statement of Spark: the [primary key](verbs/alter.md#primary-key); written by lance-spark",
    "lance_spark.mem_wal": "gives the table a [write-ahead log](mem-wal.md#write-rows): `unsharded`, `bucket(COLUMN, NUMBER)`, "
    "`identity(COLUMN)`, or `true` for shards that are chosen by hand",
    "lance_spark.view": "of a [materialized view](materialized-views.md): its query, and what its rows are of; written by lance-spark",
    "lance_spark.written": "of a table of the [session catalog](planner.md#tables-of-the-session-catalog): it had a first write",
}
"""The properties that lance-spark itself uses. Other known ones are those of other libraries."""


def properties() -> str:
    """The table of the properties of tables."""
    assert _MEANINGS.keys() <= set(KNOWN), "the page describes a property that the code does not know"
    rows = ["| property | meaning |", "|---|---|"]
    rows += [f"| `{name}` | {_MEANINGS[name]} |" for name in KNOWN if name in _MEANINGS]
    rows.append(f"| `{CONSTRAINT}NAME` | the condition of a [constraint](statements.md#constraints), for a new table |")
    for option in options_of(WriteOptions).values():
        if "new table" in option.use:
            names = ", ".join(f"`{name}`" for name in option.names)
            rows.append(f"| {names} | {option.help} |")
    rows.append("| `COLUMN.lance.NAME`, `COLUMN.arrow.NAME` | an [option](options.md) of one column of a new table |")
    foreign = ", ".join(f"`{name}`" for name in KNOWN if name not in _MEANINGS)
    rows += ["", f"These properties of other libraries are kept, and lance-spark does not use them: {foreign}."]
    return "\n".join(rows)


def names_in_the_code() -> set[str]:
    """The settings of Spark that begin with `spark.lance.`, and the variables of the environment, that the package reads or sets."""
    sources = [path.read_text() for suffix in ("py", "java") for path in PACKAGE.rglob(f"*.{suffix}") if path.parent.name != "_proto"]
    found = {name for source in sources for name in _CONF.findall(source)}
    return found | {name for source in sources for names in _VARIABLE.findall(source) for name in names if name}
