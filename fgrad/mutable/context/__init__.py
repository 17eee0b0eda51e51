"""Second floor: what holds for a thread while code runs: modes, warnings, and who may answer a call.

It uses ``types``.
"""
