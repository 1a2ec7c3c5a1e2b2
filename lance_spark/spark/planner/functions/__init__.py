"""The table functions, in Java: lance_scan, and those that search a table or return its changes."""
