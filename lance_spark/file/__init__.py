"""One data file: footer, metadata, reader and writer.

In: a path in a store, the fields and rows that are wanted, or batches to be written. Out: Arrow arrays, or a file. It may import the
layouts of all versions, and no table. Begin with `reader.py` and `writer.py`; `footer.py` has the structure of a file.
"""
