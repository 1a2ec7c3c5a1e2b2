"""COPY INTO: loads the files of a folder that the table does not have yet, each once.

FileCopy.java lists the files, and inserts their rows with Spark; what is remembered of them is in
`table.commit.copied_files`. If another COPY INTO of the table commits meanwhile, the rows are not
committed, and the files that it has left are loaded again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.metadata.numbered_writes import APP_VERSION
from lance_spark.metadata.operations import Append
from lance_spark.namespace.protocol import TRANSACTION
from lance_spark.spark.catalog.statement_tokens import Tokens
from lance_spark.spark.catalog.tables import Place, latest_at
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.table.commit.copied_files import copied, forget, is_committed, load_of, prepared
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import Snapshot, list_versions, open_snapshot

_LOG = logging.getLogger("lance_spark")
_FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
_OPTIONS = ("force", "mergeschema")


def parsed(rest: Tokens) -> dict[str, Any]:
    """The parts of `COPY INTO t FROM source FILEFORMAT = f [FILES = (..) | PATTERN = '..'] [FORMAT_OPTIONS (..)] [COPY_OPTIONS (..)]`."""
    rest.need("FROM")
    select, path, after = "*", "", ""
    if rest.take("("):
        rest.need("SELECT")
        select = rest.until("FROM")
        rest.need("FROM")
        path = rest.text()
        after = "" if rest.comes(")") else rest.until(")")
        rest.need(")")
    else:
        path = rest.text()
    found: dict[str, Any] = {"path": path, "select": select, "after": after, "files": [], "pattern": "", "formatOptions": {}}
    copy_options: dict[str, str] = {}
    while not rest.is_done:
        if rest.take("FILEFORMAT"):
            rest.need("=")
            found["format"] = rest.name().lower()
        elif rest.take("FILES"):
            rest.need("=")
            found["files"] = rest.list_of_texts()
        elif rest.take("PATTERN"):
            rest.need("=")
            found["pattern"] = rest.text()
        elif rest.comes("FORMAT_OPTIONS"):
            found["formatOptions"] = rest.texts("FORMAT_OPTIONS")
        elif rest.comes("COPY_OPTIONS"):
            copy_options = rest.texts("COPY_OPTIONS")
        else:
            rest.expected("FILEFORMAT, FILES, PATTERN, FORMAT_OPTIONS, COPY_OPTIONS or the end")
    if found.get("format") not in _FORMATS:
        raise InvalidOptionError(f"COPY INTO needs FILEFORMAT = one of {', '.join(_FORMATS)}; found {found.get('format', 'none')}")
    if found["files"] and found["pattern"]:
        raise InvalidOptionError("COPY INTO has FILES and PATTERN; give one of them")
    given = {key.lower(): value.lower() for key, value in copy_options.items()}
    if unknown := sorted(given.keys() - set(_OPTIONS)):
        raise InvalidOptionError(f"COPY INTO has no COPY_OPTIONS {unknown[0]!r}; they are force and mergeSchema")
    if wrong := sorted(key for key, value in given.items() if value not in ("true", "false")):
        raise InvalidOptionError(f"COPY_OPTIONS {wrong[0]!r} takes true or false, not {given[wrong[0]]!r}")
    return {**found, "table": rest.table, "force": given.get("force") == "true", "merges": given.get("mergeschema") == "true"}


_SOURCE = re.compile(r"`?(\w+)`?\s*\.\s*`(.+)`")


def of_added_files(place: Place, given: Mapping[str, Any]) -> str:
    """The COPY INTO that `add_files` means, for the table that is `called` so: by the parts of its name, or by its path alone."""
    found = _SOURCE.fullmatch(given["source_table"].strip())
    if found is None:
        raise UnsupportedFeatureError(
            f"add_files: the source_table is a format and a folder, parquet.`/path`, not {given['source_table']!r}; of a table, write "
            "INSERT INTO t SELECT * FROM it"
        )
    if "parallelism" in given:
        _LOG.warning("the argument parallelism of add_files has no effect")
    folders = "/".join(f"{key}={value}" for key, value in given.get("partition_filter", {}).items())
    pattern = f" PATTERN = {_text(folders + '/*')}" if folders else ""
    force = "" if given.get("check_duplicate_files", True) else " COPY_OPTIONS ('force' = 'true')"
    called = place["called"]
    names = called if len(called) > 1 else [place["catalog"], *called]
    name = ".".join("`" + part.replace("`", "``") + "`" for part in names)
    return f"COPY INTO {name} FROM {_text(found[2])} FILEFORMAT = {found[1]}{pattern}{force}"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def begin(catalog: Catalog, place: Place, copy: Mapping[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """The files to load and the INSERT that does, from a view with the name `{view}`; no files if there is nothing to do."""
    if TRANSACTION in catalog.settings and "id" in place:
        raise UnsupportedFeatureError("a transaction contains no COPY INTO, which loads each file once; COMMIT or ROLLBACK first")
    latest = latest_at(catalog, place)
    known = set() if copy["force"] else copied(latest)
    new = [path for path in files if path not in known]
    if not new:
        return {"files": []}
    number = prepared(latest, new)
    options = {**load_of(number), **({"mergeSchema": "true"} if copy["merges"] else {})}
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    query = f"SELECT {copy['select']} FROM {{view}} {copy['after']}"
    return {"files": new, "number": str(number), "sql": f"INSERT INTO {copy['table']} WITH ({texts}) BY NAME {query}"}


def end(catalog: Catalog, place: Place, number: str) -> dict[str, Any]:
    """Whether a load is committed, and how many rows it has; it is not if another one was committed first."""
    latest = latest_at(catalog, place)
    if not is_committed(latest, int(number)):
        forget(latest, int(number))
        return {"done": False, "rows": 0}
    return {"done": True, "rows": _rows(latest, number)}


def _rows(latest: Snapshot, number: str) -> int:
    """The number of rows of a load, which is one of the last versions."""
    for version in sorted(list_versions(latest.store), reverse=True):
        transaction = transaction_of(open_snapshot(latest.store, version=version, allow_other_stores=latest.allow_other_stores))
        if transaction.properties.get(APP_VERSION) == number:
            operation = transaction.operation
            fragments = operation.fragments if isinstance(operation, Append) else ()
            return sum(fragment.physical_rows for fragment in fragments)
    return 0
