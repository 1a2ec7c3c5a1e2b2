"""The change feed: which rows the commits of a range of versions have inserted, updated and deleted."""
