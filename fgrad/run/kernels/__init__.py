"""The table of NumPy kernels: what computes each primitive, and how closely it agrees with the compiled program."""
