"""Fifth floor: operations planned for types, how one is applied and recorded, and views of a base.

It uses ``types``, ``context``, ``layout``, ``values``, ``tensor``.
"""
