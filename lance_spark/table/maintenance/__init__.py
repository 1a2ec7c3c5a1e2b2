"""Maintenance of tables: cleanup, verify, clones."""
