"""Sixth floor: the levels of ``torch.func`` and of forward-mode differentiation.

It uses ``context``, ``layout``, ``values``, ``tensor``, ``operation``.
"""
