"""Scanning a version: plan, tasks, projection, deletions, top-n, read-ahead."""
