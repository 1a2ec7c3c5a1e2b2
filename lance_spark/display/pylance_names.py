"""Names of pylance that a `Dataset` has not, and what to call instead."""

from __future__ import annotations

INSTEAD = {
    "checkout_latest": "Dataset.open(dataset.uri)",
    "config": "update_config(..) to change it; `lance-spark info` prints it",
    "delete_config_keys": 'update_config({"key": None})',
    "delta": "changes(begin, end)",
    "describe_indices": "list_indices()",
    "filter": "scan(filter=..)",
    "fragment_ids": 'metadata_table("fragments")',
    "get_fragment": 'metadata_table("fragments")',
    "get_fragments": 'metadata_table("fragments")',
    "get_transactions": "history()",
    "has_index": "list_indices()",
    "join": "to_table(..).join(..), or Spark",
    "lance_schema": "schema",
    "latest_version": "Dataset.open(dataset.uri).version",
    "merge": "add_columns(..), or LanceTable.updateColumns(..) in Spark",
    "read_transaction": "history()",
    "scanner": "scan(..)",
    "slice": "scan(offset=.., limit=..)",
    "sort_by": "to_table(..).sort_by(..), or Spark",
    "sql": "scan(filter=..), or spark.sql(..)",
    "stats": 'metadata_table("fragments"), or print(dataset)',
    "truncate_table": 'delete("true")',
    "validate": "verify()",
}
"""The name in pylance, and the call here."""
