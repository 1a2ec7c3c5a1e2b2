"""Conditions that Spark does not push into sources, in Java: a scan gets them beside those that it pushes, for indexes to answer."""
