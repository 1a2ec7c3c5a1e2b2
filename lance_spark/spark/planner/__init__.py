"""The planner for Spark: its Java sources, their installation, and the requests that they send."""
