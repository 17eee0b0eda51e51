"""Third floor: values of tensors: how graphs turn them into new ones, their batches, devices and sizes.

It uses ``types``, ``context``, ``layout``.
"""
