"""Second floor: running a graph, by NumPy or compiled, and the caches for the next run.

It uses ``graph``.
"""
