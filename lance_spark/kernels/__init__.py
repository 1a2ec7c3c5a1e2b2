"""Compiled loops that several encodings share, and the one decorator that compiles them."""
