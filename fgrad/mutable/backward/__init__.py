"""Seventh floor: the engine, backward fused into one program, and recorded backward (``create_graph``).

It uses ``context``, ``layout``, ``values``, ``tensor``, ``operation``, ``transforms``.
"""
