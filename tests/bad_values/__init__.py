"""Bad values at every public entry, in both layers: each gives a right result, or an error that says what was wrong.

``values`` lists the values, ``functional`` and ``mutable`` the calls that take them, and ``outcomes`` what may come of
one.  Where JAX or PyTorch has the same entry, it is called with the same value.
"""
