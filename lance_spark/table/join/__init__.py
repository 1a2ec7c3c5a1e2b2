"""Nearest joins: each question finds its nearest rows, by tasks over groups of partitions of an index, which are read for many questions."""
