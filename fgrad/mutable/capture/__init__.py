"""Eighth floor: capture, which turns a mutable program into a graph.

It uses ``context``, ``values``, ``tensor``, ``transforms``.
"""
