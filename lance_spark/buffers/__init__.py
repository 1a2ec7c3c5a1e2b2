"""Bytes in memory: ranges of a file, blocks of values, and the memory that pages are decoded into.

In: bytes as a store returns them. Out: blocks of values, parsed messages, and errors for bytes that do not fit. It imports only
errors. Begin with `byte_ranges.py` (what is read) and `blocks.py` (what is decoded).
"""
