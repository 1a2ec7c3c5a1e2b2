"""Statements on tables of the session catalog, in Java: their options and places, and their replacement in one commit."""
