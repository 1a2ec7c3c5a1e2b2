"""Storage version 0.1 (legacy): batches of rows, each field's values at a place that a page table names."""
