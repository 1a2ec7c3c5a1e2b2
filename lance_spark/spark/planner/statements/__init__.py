"""Statements that Spark does not know, such as OPTIMIZE, in Java: the parser in front of Spark's, and their plan."""
