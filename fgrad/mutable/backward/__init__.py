"""Seventh floor: the engine, backward as one program, and backward that is itself recorded.

It uses ``context``, ``layout``, ``values``, ``tensor``, ``operation``.
"""
