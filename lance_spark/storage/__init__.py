"""Access to the bytes of a table in any store: ranged reads, listings, conditional put. The only folder that imports fsspec.

In: a URI with options. Out: a `Store`, whose errors name the path and say what to do. It knows nothing of tables.
Begin with `store.py`; `local.py` and `remote.py` are the two kinds of stores.
"""
