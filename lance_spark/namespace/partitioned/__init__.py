"""The partitioned namespace: one logical table over many Lance tables, pruned by partition values and committed at once."""
