"""Benchmarks of reading and writing with Spark: `python -m bench` (see docs/bench.md)."""
