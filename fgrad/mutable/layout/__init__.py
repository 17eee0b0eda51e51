"""Second floor: where elements lie: sizes, strides and offsets, and which gradients are views of others.

It uses ``types``.
"""
