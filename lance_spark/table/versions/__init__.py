"""The versions of a table: snapshots, history, tags and branches."""
