"""Repetition and definition levels: how nested and nullable values become flat columns, and back."""
