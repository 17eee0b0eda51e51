"""Typical mistakes in both layers, and what fgrad and its peers say of them."""
