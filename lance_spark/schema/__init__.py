"""The field tree of a table: logical types, blob columns, and the field messages of manifests and data files.

In: Arrow schemas and field messages. Out: `Schema`, a tree of `Field`, which knows ids and names; and back. It imports only
`buffers/`, `display/` and errors. Begin with `schema.py`.
"""
