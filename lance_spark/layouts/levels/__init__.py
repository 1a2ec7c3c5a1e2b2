"""Repetition and definition levels: nested and nullable values <-> flat columns."""
