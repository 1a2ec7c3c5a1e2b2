"""Commits of transactions: the conditional put, conflict rules, rebase and retry."""
