"""Sixth floor: in-place writes: checks, the write itself, and its place in the backward graph.

It uses ``types``, ``context``, ``layout``, ``values``, ``tensor``, ``operation``.
"""
