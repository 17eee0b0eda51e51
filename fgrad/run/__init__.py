"""Second floor: running a graph, by NumPy or compiled, and what is kept of it for the next run.

It uses ``graph``.
"""
