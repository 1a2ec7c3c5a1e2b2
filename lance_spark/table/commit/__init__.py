"""Committing a transaction: the conditional put, the conflict rules, rebase and retry."""
