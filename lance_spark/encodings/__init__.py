"""Compressive encodings: bytes <-> blocks of values, one encoding a file, encode beside decode."""
