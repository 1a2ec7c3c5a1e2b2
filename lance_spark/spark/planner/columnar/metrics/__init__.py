"""Metrics of scans and writes in Spark's UI, in Java: how they are shown, and those of writes, which the driver reports."""
