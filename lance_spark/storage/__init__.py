"""Access to the bytes of a table in any store: ranged reads, listings, conditional put. The only folder that imports fsspec."""
