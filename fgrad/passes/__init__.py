"""Fifth floor: from graph to graph, a file each: reverse and forward mode, partition,
simplification; ``regions`` has a file for each kind of region.

It uses ``graph``, ``record``, ``rules``.
"""
