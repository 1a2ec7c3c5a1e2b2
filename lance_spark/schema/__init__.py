"""The field tree of a table: logical types, blob columns, and the field messages of manifests and data files."""
