"""Helpers for Arrow data that pyarrow lacks: selecting rows, building maps, JSON columns.

In and out: Arrow arrays, batches and types, and arrays of numpy. It knows nothing of tables and files, and imports only
`buffers/` and `kernels/`. Begin with `selection.py` and `types.py`, which most others use.
"""
