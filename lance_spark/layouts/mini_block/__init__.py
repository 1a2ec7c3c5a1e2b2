"""Mini-block pages: small values in chunks, the units of decoding."""
