"""The Spark adapters: the data source, its options, types, reader and writer."""
