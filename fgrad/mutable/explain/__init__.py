"""Top floor: why an error came, why a gradient is missing; reads everything below, and nothing reads it."""
