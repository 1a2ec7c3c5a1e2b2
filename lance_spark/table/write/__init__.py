"""Writing rows: data files first, then one commit."""
