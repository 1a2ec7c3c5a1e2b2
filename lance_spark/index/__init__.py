"""Scalar indexes: the files of each kind, which rows they say satisfy a condition, and how they are built.

Knows nothing of snapshots: `table/scan/indexed.py` chooses the segments and combines their answers.
"""
