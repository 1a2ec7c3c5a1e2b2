"""Backfill: computing a column by a function for all rows that lack a result of it, so that it can be stopped and goes on."""
