"""Compressive encodings: bytes <-> blocks of values, one encoding per file, encoder beside decoder.

In: the chunks of a page, and a tree of encodings from its message. Out: blocks of values; and back. It imports `buffers/`,
`kernels/` and errors, never a layout or a file. Begin with `tree.py`, which lists all, and `flat.py`, the simplest.
"""
