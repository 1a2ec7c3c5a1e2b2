"""One table: its versions, and how they are read, written, changed and kept."""
