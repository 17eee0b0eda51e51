"""Third floor: the values of tensors: running graphs on them, batched values, devices, memory limits.

It uses ``types``, ``context``, ``layout``.
"""
