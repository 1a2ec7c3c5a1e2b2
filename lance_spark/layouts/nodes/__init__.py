"""The messages that describe a page: parsed into frozen nodes, and what each version allows."""
