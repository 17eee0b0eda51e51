"""First floor: dtypes, devices, sizes, memory formats, and type promotion."""
