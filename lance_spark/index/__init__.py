"""Scalar indexes: the files of each kind, which rows they say satisfy a condition, and how they are built.

Knows nothing of snapshots: `table/scan/indexed.py` chooses the segments and combines their answers.

In: a column's values with their row addresses, or a condition and the files of a segment. Out: files, or an `Answer`: which rows
satisfy the condition. Begin with `kinds.py`, the list of kinds, and `zone_map.py`, the simplest of them.
"""
