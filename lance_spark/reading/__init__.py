"""The interface of reading a column: steps that request bytes, and selections of rows.

In: selections of rows, and functions that yield the ranges that they need. Out: their results, when the bytes have come.
It imports only `buffers/` and errors. Begin with `steps.py`: all readers of columns are such generators.
"""
