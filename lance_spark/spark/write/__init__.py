"""What tasks of Spark write, and what the driver commits."""
