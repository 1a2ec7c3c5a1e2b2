"""Adapters to Spark: the data source, its options, types, reader and writer."""
