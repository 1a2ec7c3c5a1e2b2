"""Searching a version for its best rows: what is searched for, in which segments of indexes and other rows, and the rows that are found."""
