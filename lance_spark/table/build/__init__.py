"""The next manifest from the current one and a transaction. Pure."""
