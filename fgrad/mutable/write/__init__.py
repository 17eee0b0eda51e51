"""Sixth floor: in-place writes, and the history of what was written.

It uses ``types``, ``context``, ``layout``, ``values``, ``tensor``, ``operation``.
"""
