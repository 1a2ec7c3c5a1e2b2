"""Measurements of reading and writing with Spark: `python -m bench` (see the README's section on speed)."""
