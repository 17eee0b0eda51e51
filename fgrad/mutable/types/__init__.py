"""First floor: what tensors are made of by type: dtypes, devices, sizes, formats, and how types are promoted."""
