"""The planner that is installed into Spark: the Java sources, their installation, and the requests they send."""
