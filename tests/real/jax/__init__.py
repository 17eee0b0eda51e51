"""Programs written for JAX."""
