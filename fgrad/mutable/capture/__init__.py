"""Eighth floor: capture, which turns a mutable program into a graph.

It uses ``types``, ``context``, ``values``, ``tensor``, ``transforms``.
"""
