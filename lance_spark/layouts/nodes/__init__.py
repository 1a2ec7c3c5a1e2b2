"""The messages that describe a page: parsed into frozen nodes, checked against what each version allows."""
