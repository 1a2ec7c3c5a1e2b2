"""Making segments of vector indexes: training, encoding, gathering by partition, and joining segments."""
