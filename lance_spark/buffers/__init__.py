"""Bytes in memory: ranges of a file, blocks of values, and the memory that pages are decoded into."""
