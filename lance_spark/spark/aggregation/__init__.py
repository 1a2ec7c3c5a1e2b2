"""Aggregates of the rows of a task, with and without keys, as partial results that Spark combines."""
