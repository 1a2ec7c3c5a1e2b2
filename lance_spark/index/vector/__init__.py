"""Vector indexes: partitions of the vectors around centroids (IVF), their codes (FLAT, PQ, SQ, RQ) and graphs (HNSW)."""
