"""Compiled loops that several encodings share, and the one decorator that compiles them.

In and out: arrays of numpy. It imports nothing of the package but errors and the version. Begin with `kernel.py`, the decorator: what it
compiles, when, and where the machine code is kept.
"""
