"""Keeping a table in order: cleanup, verify, clones."""
