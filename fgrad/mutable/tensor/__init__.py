"""Fourth floor: storages with version counters, tensors as handles on them, nodes, hooks, and saved tensors.

It uses ``types``, ``context``, ``layout``, ``values``.
"""
