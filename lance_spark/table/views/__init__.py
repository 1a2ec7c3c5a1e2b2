"""Materialized views: what a refresh has to do."""
