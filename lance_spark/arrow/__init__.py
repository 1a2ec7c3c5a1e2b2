"""Helpers for Arrow data that pyarrow lacks: selecting rows, building maps, JSON columns."""
