"""Storage version 0.1 (legacy): batches of rows, with the position of each field's values in a page table."""
