"""Compressive encodings: bytes <-> blocks of values, one encoding per file, encoder beside decoder."""
