"""Columns between Spark and Arrow: types, their metadata, and batches in the form that Spark was promised."""
