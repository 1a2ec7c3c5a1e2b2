"""Compaction: fewer and larger fragments without deleted rows, in tasks that rewrite groups of them."""
