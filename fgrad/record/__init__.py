"""Third floor: the tracer, the tape that it writes, and the fast lane of ``fgrad.numpy`` and its like.

It uses ``graph``, ``run``.
"""
