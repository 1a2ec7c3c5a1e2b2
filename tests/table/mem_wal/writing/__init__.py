"""The writer of the write-ahead log."""
