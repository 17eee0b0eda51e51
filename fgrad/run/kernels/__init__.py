"""NumPy kernels of primitives: one row for each, by family; ``kernel`` looks an operation up."""
