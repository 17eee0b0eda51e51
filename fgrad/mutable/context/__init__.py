"""Second floor: per-thread state while code runs: modes, warnings, and ``__torch_function__``.

It uses ``types``.
"""
