"""Constant pages: one value, or only nulls."""
