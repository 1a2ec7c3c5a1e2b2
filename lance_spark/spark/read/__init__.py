"""Kinds of reads in Spark, and what the planner asks of them."""
