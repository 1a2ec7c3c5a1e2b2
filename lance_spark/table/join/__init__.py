"""Nearest joins: tasks over groups of partitions of an index find the nearest rows of many questions, and read each partition once."""
