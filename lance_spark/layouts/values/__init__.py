"""The visible values of a page: Arrow arrays <-> data blocks."""
