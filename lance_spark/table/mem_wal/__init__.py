"""Reads of a version together with the rows that are only in the table's write-ahead log (MemWAL)."""
