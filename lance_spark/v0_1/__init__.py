"""Storage version 0.1 (legacy): batches of rows, with the position of each field's values in a page table.

In and out are those of `layouts/`, which it resembles. Its files are read, never written. Begin with `field.py`.
"""
