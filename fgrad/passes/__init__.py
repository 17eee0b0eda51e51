"""Fifth floor: from graph to graph, a file each: reverse and forward mode, simplification, batching, recomputation.

It uses ``graph``, ``record``, ``rules``.
"""
