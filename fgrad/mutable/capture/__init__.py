"""Eighth floor: capture, by which a mutable program becomes a graph.

It uses ``context``, ``values``, ``tensor``, ``transforms``.
"""
