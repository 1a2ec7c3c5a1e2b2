"""Generators of tables, names and statements for comparisons of Lance with Parquet under settings in rotation."""
