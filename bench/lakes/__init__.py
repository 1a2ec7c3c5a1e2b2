"""Ours beside Delta Lake, Iceberg and Parquet in the same Spark: the contestants, the works, and the page of the results."""
