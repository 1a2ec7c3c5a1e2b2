"""Transactions over several tables of a directory namespace: all of their changes are seen, or none."""
