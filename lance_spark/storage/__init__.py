"""Bytes of a table wherever it is stored: ranged reads, listings, conditional put. The only folder that imports fsspec."""
