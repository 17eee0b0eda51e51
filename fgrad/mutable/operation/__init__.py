"""Fifth floor: plans of operations for given types, applying and recording an operation, and views.

It uses ``types``, ``context``, ``layout``, ``values``, ``tensor``.
"""
