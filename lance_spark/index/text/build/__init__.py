"""Making full-text indexes: texts become posting lists, which partitions of 4 files hold; and joining or moving partitions."""
