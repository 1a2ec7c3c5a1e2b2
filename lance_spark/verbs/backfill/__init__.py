"""BACKFILL: a function computes a column on the executors."""
