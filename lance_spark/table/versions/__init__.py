"""Versions of a table: snapshots, history, tags and branches."""
