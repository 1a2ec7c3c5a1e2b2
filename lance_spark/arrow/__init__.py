"""Helpers over Arrow data that pyarrow lacks: choosing rows, making maps, JSON columns."""
