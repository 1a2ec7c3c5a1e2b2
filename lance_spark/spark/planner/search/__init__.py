"""Searches for vectors: Spark has their rows when it plans a query, which needs no job for them."""
