"""Ids, properties and locations in the rows of a `__manifest`. They are untrusted: no path may leave the root."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError
from lance_spark.namespace.manifest_table import FOLDER, SCHEMA, ManifestTable
from lance_spark.namespace.protocol import DELIMITER
from lance_spark.storage.location import can_be_path

PARTITION_SPEC, PARTITION_FIELD = "partition_spec_v", "partition_field_"
"""What the keys of the specs of a partitioned namespace, and the columns of its partition values in the published form, begin with."""
PARTITION_VALUE = "partition."
"""What the properties with the partition values of a namespace or table begin with; the name of the field follows."""
_PINS = ("read_version", "read_branch", "read_tag")


def object_id(names: Sequence[str]) -> str:
    """The value of the column `object_id`."""
    return DELIMITER.join(names)


def find(table: ManifestTable, names: Sequence[str]) -> dict[str, Any] | None:
    """The row with an id, or None."""
    place = pc.index(table.rows["object_id"], object_id(names)).as_py()
    return None if place < 0 else dict(table.rows.slice(place, 1).to_pylist()[0])


def below(table: ManifestTable, names: Sequence[str]) -> pa.Table:
    """The rows of all objects in a namespace, at any depth."""
    return table.rows.filter(pc.starts_with(table.rows["object_id"], _prefix(names))) if names else table.rows


def children(table: ManifestTable, names: Sequence[str], object_type: str) -> list[str]:
    """The last names of the objects of a type that are directly in a namespace, sorted."""
    rows = below(table, names)
    ids = rows["object_id"].filter(pc.equal(rows["object_type"], object_type))
    last = pc.utf8_slice_codeunits(ids, len(_prefix(names)))
    return sorted(name for name in last.filter(pc.invert(pc.match_substring(last, DELIMITER))).to_pylist() if name)


def _prefix(names: Sequence[str]) -> str:
    return object_id(names) + DELIMITER if names else ""


def to_metadata(properties: Mapping[str, str]) -> str | None:
    """The value of the column `metadata`."""
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"properties must be strings, but {key!r} is {value!r}")
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":")) if properties else None


def properties_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The properties in a row. Raises CorruptFileError unless the column `metadata` is null or a JSON object of strings."""
    text = row.get("metadata")
    if text is None:
        return {}
    properties = None
    if isinstance(text, str):
        try:
            properties = json.loads(text)
        except (ValueError, RecursionError):
            properties = None
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise CorruptFileError(f"the metadata of {row['object_id']!r} in __manifest is not a JSON object of strings: {str(text)[:60]!r}")
    return properties


def described(table: ManifestTable, row: Mapping[str, Any]) -> dict[str, str]:
    """The properties in a row, and its partition values as text if the namespace is partitioned."""
    properties = properties_of(row)
    if not any(key.startswith(PARTITION_SPEC) for key in table.metadata):
        return properties
    for f in table.rows.schema:
        value = row.get(f.name)
        if value is not None and f.name not in SCHEMA.names and f.name not in _PINS:
            properties[PARTITION_VALUE + f.name.removeprefix(PARTITION_FIELD)] = as_text(value, f.type)
    return properties


def as_text(value: Any, t: pa.DataType) -> str:
    """The value as Arrow casts it to text; bytes in hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    return str(pa.scalar(value, t).cast(pa.string()).as_py())


def location_of(row: Mapping[str, Any]) -> str:
    """The folder of a table, relative to the root. Raises CorruptFileError if it leaves the root or contains the namespace itself."""
    location = row.get("location")
    if not isinstance(location, str) or not is_location(location):
        raise CorruptFileError(f"the location of {row['object_id']!r} in __manifest is not a folder below the root: {str(location)[:80]!r}")
    return location.rstrip("/")


def is_location(text: str) -> bool:
    """True if `text` is the relative path of a folder below the root, other than the folder of `__manifest`."""
    parts = text.rstrip("/").split("/")
    return can_be_path(text) and parts[0] != FOLDER and not any(part in ("", ".", "..") for part in parts)
