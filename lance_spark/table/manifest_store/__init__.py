"""External manifest stores, for object stores without a conditional put."""
