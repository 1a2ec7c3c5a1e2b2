"""Writing rows into a table's write-ahead log (MemWAL): the log's configuration, its shards, their writers, and SSTables."""
