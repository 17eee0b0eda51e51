"""Second floor: memory layout: sizes, strides and offsets, and which gradients are views of others.

It uses ``types``.
"""
