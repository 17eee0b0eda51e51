"""Sixth floor: the functional interface: each transformation is a recording, one or two passes, and a run.

It uses ``graph``, ``run``, ``record``, ``rules``, ``passes``.
"""
