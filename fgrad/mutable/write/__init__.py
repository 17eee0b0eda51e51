"""Sixth floor: in-place writes, and the history of what was written."""
