"""Fourth floor: storages with versions, tensors as handles on them, nodes, hooks, and what nodes save.

It uses ``types``, ``context``, ``layout``, ``values``.
"""
